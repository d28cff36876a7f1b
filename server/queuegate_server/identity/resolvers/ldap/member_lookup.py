"""Looks up the members of groups, whereas `group_lookup` looks up the groups of users.

Members are found through memberOf, the DNs or names listed in groups, nested groups and primary
groups. The list may include users who are not members; `group_lookup` is authoritative.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import ldap

from queuegate_server.identity.members import SEVERAL_GROUPS, MemberListing
from queuegate_server.identity.resolvers.ldap.entries import (
    GroupKind,
    LdapEntry,
    NormalizedDn,
    ParsedDn,
    SearchBase,
    decode_value,
    normalize,
    parse_dn,
    rdn_filter,
)
from queuegate_server.identity.resolvers.ldap.filters import (
    POSIX_GROUPS,
    all_of,
    equals,
)
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault, ServerFault, SetupFault
from queuegate_server.identity.resolvers.ldap.member_users import (
    ADVICE,
    FoundUsers,
    MemberUsers,
    any_rdn,
    distinct_names,
    key_of,
)
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.user_lookup import UserKind, UserLookup

_CHUNK: Final = 100
"""The number of DNs per search."""
_MAX_DEPTH: Final = 50
"""The maximum nesting depth for in-chain searches. Active Directory itself has no limit."""
_MAX_SAME_NAME: Final = 100
"""The maximum number of groups with the same name."""
_SID: Final = "objectSid"
_GID: Final = "gidNumber"
_RID_BYTES: Final = 4
_RDN_ATTRIBUTES: Final = ("cn", "ou", "uid")
"""The attributes searched for a group's name if names are taken from DNs."""
_NO_BASE: Final = "the resolver has no group_base below which to search for groups"
_UNREADABLE_DN: Final = "a member has a DN that no filter can contain"


class _Group(NamedTuple):
    """A group whose members are being listed."""

    key: str
    """A key that is the same for all spellings of the DN."""
    dn: str
    kind: GroupKind
    name: str
    rid: int | None
    """The value of primaryGroupID for users whose primary group this is (Active Directory only)."""


class _Reached(NamedTuple):
    """A group below the listed group, or this group itself."""

    group: _Group
    path: tuple[str, ...]
    """The names of the groups on the path from the listed group (excluded) to this group
    (included).
    """


class _DirectMembers(NamedTuple):
    """A group's direct members, and why some may be missing."""

    users: tuple[str, ...]
    groups: tuple[_Group, ...]
    missing: str


async def list_members(
    listing: MemberListing, lookup: UserLookup, connection: LdapConnection
) -> None:
    """List the members of the pending groups over one connection.

    Raises ListingLimit, and ServerFault if the server fails. The remaining groups can then be
    listed using another server.
    """
    with SearchSession(connection, lambda: Allowance(listing.room, is_for_listing=True)) as session:
        await MemberLookup(session, lookup.kinds, lookup.users, listing).run()


class MemberLookup:
    """Lists group members over one connection."""

    def __init__(
        self,
        session: SearchSession,
        kinds: Sequence[GroupKind],
        users: UserKind,
        listing: MemberListing,
    ) -> None:
        """Create a lookup for one listing.

        Args:
            session: Searches over the connection.
            kinds: The kinds of groups.
            users: The kind of users.
            listing: The listing, which receives the members.
        """
        self._session = session
        self._kinds = kinds
        self._users = MemberUsers(session, users, listing)
        self._listing = listing
        self._options = session.options
        self._direct: dict[str, _DirectMembers] = {}
        nested = {"off": 0, "walk": self._options.nested_depth, "in_chain": _MAX_DEPTH}
        self._depth = nested[self._options.nested]

    async def run(self) -> None:
        """List the members of the pending groups; see `list_members`."""
        for name in self._listing.pending:
            try:
                missing = await self._list(name)
            except ServerFault:
                raise
            except LdapFault as fault:
                missing = fault.text
            self._listing.done(name, missing)

    async def _list(self, name: str) -> str:
        """List a group's members; return why some may be missing ("" if the list is complete)."""
        missing: list[str] = []
        roots: list[_Group] = []
        for kind in self._kinds:
            if kind.options.group_base is None:
                missing.append(_NO_BASE)
            else:
                roots += await self._groups_named(kind, name)
        if self._options.unique_group_names and len({group.dn for group in roots}) > 1:
            return SEVERAL_GROUPS
        if self._options.primary_group == "user_name":
            self._listing.add(name, name)
        if self._options.primary_group == "gid_number":
            missing.append(await self._add_users_of_gid(name))
        missing += await self._add_below(name, roots)
        return "; ".join(dict.fromkeys(filter(None, missing)))

    async def _add_below(self, name: str, roots: Sequence[_Group]) -> list[str]:
        """Add the direct and nested members of the groups in `roots` to the listed group `name`.

        Return why some may be missing.
        """
        missing: list[str] = []
        seen = {group.key for group in roots}
        level = [_Reached(group, ()) for group in roots]
        for _ in range(self._depth + 1):
            below: list[_Reached] = []
            for group, path in level:
                direct = await self._direct_members(group)
                missing.append(direct.missing)
                for user in direct.users:
                    self._listing.add(name, user, path)
                for child in direct.groups:
                    if child.key not in seen:
                        seen.add(child.key)
                        below.append(_Reached(child, (*path, child.name)))
            level = below
        return missing

    async def _groups_named(self, kind: GroupKind, name: str) -> list[_Group]:
        attributes = (
            (kind.options.group_name_attribute,)
            if kind.options.group_name_from == "attribute"
            else _RDN_ATTRIBUTES
        )
        wanted = "".join(equals(attribute, name) for attribute in attributes)
        groups = await self._search_groups(kind, f"(|{wanted})", _MAX_SAME_NAME)
        return [group for group in groups if group.name == name]

    async def _search_groups(self, kind: GroupKind, filter_text: str, limit: int) -> list[_Group]:
        has_rid = self._options.primary_group == "active_directory" and kind is self._kinds[0]
        entries = await self._search(
            kind.options.group_base or "",
            all_of(kind.options.group_filter, filter_text),
            (*kind.attributes, _SID) if has_rid else kind.attributes,
            limit,
        )
        groups: list[_Group] = []
        async for entry in self._session.in_steps(entries):
            parsed = kind.parse(entry.dn)
            if parsed is not None and parsed.is_below_base:
                name = kind.name_in(entry) if parsed.name is None else parsed.name
                groups.append(_Group(parsed.key, entry.dn, kind, name or entry.dn, _rid(entry)))
        return groups

    async def _add_users_of_gid(self, name: str) -> str:
        """Add the users whose gidNumber is that of the group; return why some are missing."""
        kind = self._kinds[0]
        is_by_name = kind.options.groups_from == "member_uid"
        of_group = kind.options.group_filter if is_by_name else POSIX_GROUPS
        entries = await self._search(
            kind.options.group_base or "",
            all_of(of_group, equals(kind.options.group_name_attribute, name)),
            (*kind.attributes, _GID),
            _MAX_SAME_NAME,
        )
        # The name may be a gidNumber, because a nameless group is identified by its number.
        numbers = {name} if name.isascii() and name.isdecimal() else set()
        for entry in entries:
            numbers.update(filter(None, map(decode_value, entry.values(_GID))))
        found: list[FoundUsers] = []
        for number in sorted(numbers):
            users = await self._users.matching(equals(_GID, number))
            found.append(users)
            for user in users.names:
                self._listing.add(name, user)
        return self._users.why_unnamed(found)

    async def _direct_members(self, group: _Group) -> _DirectMembers:
        if group.key not in self._direct:
            self._direct[group.key] = await self._read_members(group)
        return self._direct[group.key]

    async def _read_members(self, group: _Group) -> _DirectMembers:
        options = group.kind.options
        if options.groups_from == "member_uid":
            names = map(decode_value, await self._values(group))
            return _DirectMembers(tuple(filter(None, names)), (), "")
        found: list[FoundUsers] = []
        groups: list[_Group] = []
        unreadable = ""
        by_member_of = options.groups_from == "member_of" and self._options.nested != "in_chain"
        if by_member_of:
            found.append(await self._users.matching(equals(options.member_of_attribute, group.dn)))
        if group.rid is not None:
            found.append(await self._users.matching(f"(primaryGroupID={group.rid})"))
        # If memberOf finds the users, only nested groups are looked up among the listed DNs.
        values = await self._values(group) if self._depth or not by_member_of else []
        for start in range(0, len(values), _CHUNK):
            dns = await self._parse_dns(values[start : start + _CHUNK])
            searchable = {key: dn for key, dn in dns.items() if rdn_filter(dn)}
            if len(searchable) < len(dns):
                unreadable = _UNREADABLE_DN
            if not by_member_of:
                found.append(await self._users.at(searchable))
            if self._depth:
                groups += await self._groups_at(searchable)
        missing = "; ".join(filter(None, (unreadable, self._users.why_unnamed(found))))
        return _DirectMembers(distinct_names(found), tuple(groups), missing)

    async def _values(self, group: _Group) -> list[bytes]:
        attributes = group.kind.options.member_attribute
        self._listing.count_search()
        entry = await self._session.read("member search", group.dn, attributes)
        values: list[bytes] = []
        if entry is None:
            return values
        for attribute in attributes:
            values += await self._session.all_values(
                entry, attribute, limit=self._listing.room, advice=ADVICE
            )
        if not values:
            await self._ensure_readable(group)
        return values

    async def _ensure_readable(self, group: _Group) -> None:
        """Raise SetupFault if a group has members that the bind account may not read.

        Checks do not find this fault, because they only search by the attribute.
        """
        attributes = group.kind.options.member_attribute
        present = "".join(f"({attribute}=*)" for attribute in attributes)
        if await self._search(group.dn, f"(|{present})", ("1.1",), 1, ldap.SCOPE_BASE):
            raise SetupFault(
                f"the bind account has no permission to read {' or '.join(attributes)} of the"
                " group",
                "grant it read access",
            )

    async def _parse_dns(self, values: Iterable[bytes]) -> dict[NormalizedDn, ParsedDn]:
        """Return the valid DNs among the values, parsed, by their normalized form."""
        dns: dict[NormalizedDn, ParsedDn] = {}
        async for dn in self._session.in_steps(filter(None, map(decode_value, values))):
            if parsed := parse_dn(dn):
                dns[normalize(parsed)] = parsed
        return dns

    async def _groups_at(self, dns: Mapping[NormalizedDn, ParsedDn]) -> list[_Group]:
        """Return the groups among the given DNs, except groups that list their members by name."""
        below_groups: list[_Group] = []
        for kind in self._kinds:
            base = kind.options.group_base
            if base is None or kind.options.groups_from == "member_uid":
                continue
            below = SearchBase(base)
            wanted = {
                key: dn
                for key, dn in dns.items()
                if not self._users.knows(key) and below.contains(key)
            }
            if wanted:
                groups = await self._search_groups(
                    kind, any_rdn(wanted.values()), self._options.max_groups
                )
                below_groups += [group for group in groups if key_of(group.dn) in wanted]
        return below_groups

    async def _search(
        self,
        base: str,
        filter_text: str,
        attributes: Sequence[str],
        limit: int,
        scope: int = ldap.SCOPE_SUBTREE,
    ) -> list[LdapEntry]:
        self._listing.count_search()
        return await self._session.search(
            "member search",
            base,
            filter_text,
            attributes,
            limit=max(limit, 1),
            scope=scope,
            advice=ADVICE,
        )


def _rid(entry: LdapEntry) -> int | None:
    """Return the last number in a group's SID (MS-DTYP 2.4.2); None if it has no SID."""
    sids = entry.values(_SID)
    return int.from_bytes(sids[0][-_RID_BYTES:], "little") if sids else None
