"""Looks up the members of groups, whereas `group_lookup` looks up the groups of users.

Members are found through memberOf, the DNs or names listed in groups, nested groups and primary
groups. The list may include users who are not members; `group_lookup` is authoritative.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
)
from queuegate_server.identity.resolvers.ldap.filters import (
    POSIX_GROUPS,
    all_of,
    equals,
)
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import LdapFault, ServerFault, SetupFault
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
_MAX_DN_CHARS: Final = 200
_ADVICE: Final = "the members of smaller groups can be listed"


class _Group(NamedTuple):
    """A group whose members are being listed."""

    key: str
    """A key that is the same for all spellings of the DN."""
    dn: str
    kind: GroupKind
    name: str
    rid: int | None
    """The value of primaryGroupID for users whose primary group this is (Active Directory only)."""


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


@dataclass(eq=False)
class MemberLookup:
    """Lists group members over one connection."""

    session: SearchSession
    kinds: Sequence[GroupKind]
    user_search: UserKind
    listing: MemberListing

    def __post_init__(self) -> None:
        self._options = self.session.options
        self._direct: dict[str, _DirectMembers] = {}
        self._users: dict[NormalizedDn, tuple[str, ...]] = {}
        """User names by DN; empty for entries that are not users."""
        self._unnamed: dict[NormalizedDn, str] = {}
        """The DNs of users without a readable name."""
        nested = {"off": 0, "walk": self._options.nested_depth, "in_chain": _MAX_DEPTH}
        self._depth = nested[self._options.nested]

    async def run(self) -> None:
        """List the members of the pending groups; see `list_members`."""
        for name in self.listing.pending:
            try:
                missing = await self._list(name)
            except ServerFault:
                raise
            except LdapFault as fault:
                missing = fault.text
            self.listing.done(name, missing)

    async def _list(self, name: str) -> str:
        """List a group's members; return why some may be missing ("" if the list is complete)."""
        missing: dict[str, None] = {}
        level: list[tuple[_Group, tuple[str, ...]]] = []
        for kind in self.kinds:
            if kind.options.group_base is None:
                missing[_NO_BASE] = None
            else:
                level += [(root, ()) for root in await self._groups_named(kind, name)]
        if self._options.unique_group_names and len({group.dn for group, _ in level}) > 1:
            return SEVERAL_GROUPS
        if self._options.primary_group == "user_name":
            self.listing.add(name, name)
        if self._options.primary_group == "gid_number":
            await self._add_users_of_gid(name, missing)
        await self._add_below(name, level, missing)
        return "; ".join(missing)

    async def _add_below(
        self, name: str, level: list[tuple[_Group, tuple[str, ...]]], missing: dict[str, None]
    ) -> None:
        """Add the direct and nested members of the groups in `level` to the listed group `name`.

        `level` contains each group with its path from the listed group. Reasons why members may be
        missing are added to `missing`.
        """
        seen = {group.key for group, _ in level}
        for _ in range(self._depth + 1):
            below: list[tuple[_Group, tuple[str, ...]]] = []
            for group, path in level:
                direct = await self._direct_members(group)
                for user in direct.users:
                    self.listing.add(name, user, path)
                if direct.missing:
                    missing[direct.missing] = None
                for child in direct.groups:
                    if child.key not in seen:
                        seen.add(child.key)
                        below.append((child, (*path, child.name)))
            level = below

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
        has_rid = self._options.primary_group == "active_directory" and kind is self.kinds[0]
        entries = await self._search(
            kind.options.group_base or "",
            all_of(kind.options.group_filter, filter_text),
            (*kind.attributes, _SID) if has_rid else kind.attributes,
            limit,
        )
        groups: list[_Group] = []
        async for entry in self.session.in_steps(entries):
            parsed = kind.parse(entry.dn)
            if parsed is not None and parsed.is_below_base:
                name = kind.name_in(entry) if parsed.name is None else parsed.name
                groups.append(_Group(parsed.key, entry.dn, kind, name or entry.dn, _rid(entry)))
        return groups

    async def _add_users_of_gid(self, name: str, missing: dict[str, None]) -> None:
        """Add the users whose gidNumber is that of the group. Also adds to `missing`."""
        unnamed: dict[NormalizedDn, str] = {}
        kind = self.kinds[0]
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
        for number in sorted(numbers):
            for user in await self._users_with(equals(_GID, number), unnamed):
                self.listing.add(name, user)
        if unnamed:
            missing[self._why_unnamed(unnamed)] = None

    async def _direct_members(self, group: _Group) -> _DirectMembers:
        if group.key not in self._direct:
            self._direct[group.key] = await self._read_members(group)
        return self._direct[group.key]

    async def _read_members(self, group: _Group) -> _DirectMembers:
        options = group.kind.options
        if options.groups_from == "member_uid":
            names = map(decode_value, await self._values(group))
            return _DirectMembers(tuple(filter(None, names)), (), "")
        users: list[str] = []
        unnamed: dict[NormalizedDn, str] = {}
        by_member_of = options.groups_from == "member_of" and self._options.nested != "in_chain"
        if by_member_of:
            lists_group = equals(options.member_of_attribute, group.dn)
            users += await self._users_with(lists_group, unnamed)
        if group.rid is not None:
            users += await self._users_with(f"(primaryGroupID={group.rid})", unnamed)
        groups: list[_Group] = []
        missing: list[str] = []
        if not by_member_of or self._depth:
            values = await self._values(group)
            for start in range(0, len(values), _CHUNK):
                dns = await self._parse_dns(values[start : start + _CHUNK])
                searchable = {key: dn for key, dn in dns.items() if rdn_filter(dn)}
                if len(searchable) < len(dns):
                    missing = [_UNREADABLE_DN]
                if not by_member_of:
                    users += await self._users_at(searchable, unnamed)
                if self._depth:
                    groups += await self._groups_at(searchable)
        if unnamed:
            missing.append(self._why_unnamed(unnamed))
        return _DirectMembers(tuple(dict.fromkeys(users)), tuple(groups), "; ".join(missing))

    def _why_unnamed(self, unnamed: dict[NormalizedDn, str]) -> str:
        """Return why users without a readable name are missing."""
        names = " or ".join(self.user_search.filter.attributes)
        members = "1 member has" if len(unnamed) == 1 else f"{len(unnamed)} members have"
        example = next(iter(unnamed.values()))
        return (
            f"{members} no readable {names}, such as {example[:_MAX_DN_CHARS]!r}: grant the bind "
            "account read access"
        )

    async def _values(self, group: _Group) -> list[bytes]:
        attributes = group.kind.options.member_attribute
        self.listing.count_search()
        entry = await self.session.read("member search", group.dn, attributes)
        values: list[bytes] = []
        if entry is None:
            return values
        for attribute in attributes:
            values += await self.session.all_values(
                entry, attribute, limit=self.listing.room, advice=_ADVICE
            )
        if not values:
            await self._ensure_readable(group)
        return values

    async def _ensure_readable(self, group: _Group) -> None:
        """Raise SetupFault if a group has members that the bind account may not read.

        User lookups cannot detect this, because they use the attribute only in filters.
        """
        attributes = group.kind.options.member_attribute
        present = "".join(f"({attribute}=*)" for attribute in attributes)
        if await self._search(group.dn, f"(|{present})", ("1.1",), 1, ldap.SCOPE_BASE):
            raise SetupFault(
                f"the bind account may not read {' or '.join(attributes)} of the group",
                "grant it read access",
            )

    async def _parse_dns(self, values: Iterable[bytes]) -> dict[NormalizedDn, ParsedDn]:
        """Parse the given values, skipping invalid DNs; return the DNs keyed by normalized form."""
        dns: dict[NormalizedDn, ParsedDn] = {}
        async for dn in self.session.in_steps(filter(None, map(decode_value, values))):
            if parsed := parse_dn(dn):
                dns[normalize(parsed)] = parsed
        return dns

    async def _users_at(
        self, dns: dict[NormalizedDn, ParsedDn], unnamed: dict[NormalizedDn, str]
    ) -> list[str]:
        """Return the names of the users among the given DNs; add those without to `unnamed`."""
        new = {
            key: dn
            for key, dn in dns.items()
            if key not in self._users and self.user_search.base.contains(key)
        }
        if new:
            self._users.update(dict.fromkeys(new, ()))
            for entry in await self._search_users(_any_of(new.values())):
                parsed = parse_dn(entry.dn)
                if parsed and (key := normalize(parsed)) in new:
                    self._users[key] = self.user_search.names(entry)
                    if not self.user_search.has_names(entry):
                        self._unnamed[key] = entry.dn
        unnamed.update((key, self._unnamed[key]) for key in dns if key in self._unnamed)
        return [name for key in dns for name in self._users.get(key, ())]

    async def _groups_at(self, dns: dict[NormalizedDn, ParsedDn]) -> list[_Group]:
        """Return the groups among the given DNs, except groups that list their members by name."""
        below_groups: list[_Group] = []
        for kind in self.kinds:
            base = kind.options.group_base
            if base is None or kind.options.groups_from == "member_uid":
                continue
            below = SearchBase(base)
            wanted = {
                key: dn
                for key, dn in dns.items()
                if not self._users.get(key) and below.contains(key)
            }
            if wanted:
                groups = await self._search_groups(
                    kind, _any_of(wanted.values()), self._options.max_groups
                )
                below_groups += [group for group in groups if _key(group.dn) in wanted]
        return below_groups

    async def _users_with(self, filter_text: str, unnamed: dict[NormalizedDn, str]) -> list[str]:
        """Return the names of the users that match; add those without to `unnamed`."""
        entries = await self._search_users(filter_text)
        unnamed.update(
            (_key(entry.dn), entry.dn) for entry in entries if not self.user_search.has_names(entry)
        )
        return [name for entry in entries for name in self.user_search.names(entry)]

    async def _search_users(self, filter_text: str) -> list[LdapEntry]:
        users = self.user_search
        for _ in users.base.dns:
            self.listing.count_search()
        entries = await self.session.search_below(
            "member search",
            users.base,
            all_of(users.filter.for_anyone(), filter_text),
            users.filter.attributes,
            limit=max(self.listing.room, 1),
            advice=_ADVICE,
        )
        return [
            entry
            async for entry in self.session.in_steps(entries)
            if users.base.contains_entry(entry.dn)
        ]

    async def _search(
        self,
        base: str,
        filter_text: str,
        attributes: Sequence[str],
        limit: int,
        scope: int = ldap.SCOPE_SUBTREE,
    ) -> list[LdapEntry]:
        self.listing.count_search()
        return await self.session.search(
            "member search",
            base,
            filter_text,
            attributes,
            limit=max(limit, 1),
            scope=scope,
            advice=_ADVICE,
        )


def _key(dn: str) -> NormalizedDn:
    return normalize(parse_dn(dn) or [])


def rdn_filter(dn: ParsedDn) -> str:
    """Return a filter that matches a DN's first component; empty if its value is binary."""
    if any(kind & ldap.AVA_BINARY for _, _, kind in dn[0]):
        return ""
    parts = [equals(attribute, value) for attribute, value, _ in dn[0]]
    return parts[0] if len(parts) == 1 else all_of(*parts)


def _any_of(dns: Iterable[ParsedDn]) -> str:
    return f"(|{''.join(map(rdn_filter, dns))})"


def _rid(entry: LdapEntry) -> int | None:
    """Return the last number in a group's SID (MS-DTYP 2.4.2); None if it has no SID."""
    sids = entry.values(_SID)
    return int.from_bytes(sids[0][-_RID_BYTES:], "little") if sids else None
