"""Looks up a user's groups using memberOf, group searches, nested groups and the primary group.

Raises LdapFault rather than return a list that may be incomplete.
"""

import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.identity.resolvers.ldap.account_state import account_attributes
from queuegate_server.identity.resolvers.ldap.entries import (
    GroupDn,
    GroupKind,
    LdapEntry,
    decode_value,
)
from queuegate_server.identity.resolvers.ldap.filters import (
    IN_CHAIN,
    POSIX_GROUPS,
    ad_primary_group_filter,
    all_of,
    any_of,
    equals,
    member_filters,
)
from queuegate_server.identity.resolvers.ldap.ldap_faults import SetupFault, UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.search import SearchSession, gather
from queuegate_server.identity.resolvers.ldap.timed_steps import StepName

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_MAX_NAME_BYTES: Final = 1024
"""The maximum length of group names in requests."""
_GID: Final = "gidNumber"
_ONE_PRIMARY_GROUP: Final = "give this number to only one group, or narrow group_base"
_AD_PRIMARY_GROUP: Final = ("primaryGroupID", "objectSid")


def member_of_attributes(options: LdapOptions) -> tuple[str, ...]:
    """Return the user attributes that list groups; none if in-chain searches are used."""
    if options.nested == "in_chain":
        return ()
    return tuple(
        kind.member_of_attribute for kind in options.group_kinds if kind.groups_from == "member_of"
    )


def user_attributes(options: LdapOptions) -> tuple[str, ...]:
    """Return the user attributes from which groups are derived, or that show whether the user is
    refused.
    """
    wanted = (*member_of_attributes(options), *account_attributes(options))
    if options.primary_group == "gid_number":
        wanted += (_GID,)
    if options.primary_group == "active_directory":
        wanted += _AD_PRIMARY_GROUP
    return wanted


@dataclass(eq=False)
class GroupLookup:
    """Looks up one user's groups. Raises UnusableData if there are more than `max_groups`."""

    session: SearchSession
    kinds: Sequence[GroupKind]
    statistics: LdapStatistics
    user: LdapEntry
    user_name: str

    def __post_init__(self) -> None:
        self._options = self.session.options
        self._seen: set[str] = set()
        self._names: dict[str, None] = {}
        self.named: list[tuple[str, str]] = []
        """The name and key of each group that has an entry."""

    async def groups(self, requested_name: str) -> tuple[str, ...]:
        """Return the names of all groups, primary group first.

        `requested_name` is the user's name as given in the request.
        """
        options, first = self._options, self.kinds[0]
        if options.primary_group == "user_name":
            self._add_name(requested_name, requested_name)
        above: list[str] = []
        if options.primary_group == "active_directory":
            above += await self._add_ad_primary_group(first)
        elif options.primary_group == "gid_number" and options.groups_from != "member_uid":
            await self._add_gid_group(first)
        for kind in self.kinds:
            if kind.options.groups_from == "member_uid":
                await self._add_groups_listing_name(kind)
            elif options.nested == "in_chain":
                await self._add_in_chain(kind, above)
            elif kind.options.groups_from == "member_of":
                above += await self._add_member_of(kind)
            else:
                above += await self._add_groups_with(kind, [self.user.dn], "group search")
        if options.nested == "walk":
            await self._walk_up(above)
        return tuple(self._names)

    def _add_name(self, name: str | None, source: str, key: str | None = None) -> None:
        """Add a group's name, unless it is missing or no ACL can contain it.

        `key` identifies the group's entry, if it has one.
        """
        if name and len(name.encode()) <= _MAX_NAME_BYTES and not CONTROL_CHARACTER.search(name):
            self._names[name] = None
            self._check_limit(len(self._names) - 1)
            if key is not None:
                self.named.append((name, key))
        else:
            self.statistics.note_skipped(source)

    async def _add_member_of(self, kind: GroupKind) -> list[str]:
        """Add the groups in the user's memberOf attribute; return the DNs of new groups."""
        new: list[str] = []
        nameless: list[tuple[str, str]] = []
        attribute = kind.options.member_of_attribute
        values = await self.session.all_values(self.user, attribute)
        async for value in self.session.in_steps(values):
            dn = decode_value(value)
            if dn is None:
                self.statistics.note_skipped(repr(value[:_MAX_NAME_BYTES]))
                continue
            group = self._add_dn(kind, dn)
            if group is None:
                continue
            if group.name is None:
                nameless.append((dn, group.key))
            else:
                self._add_name(group.name, dn, group.key)
            new.append(dn)
        entries = await self._gather(
            [self.session.read("group names", dn, kind.attributes) for dn, _ in nameless]
        )
        for (dn, key), entry in zip(nameless, entries, strict=True):
            self._add_name(kind.name_in(entry) if entry else None, dn, key)
        return new

    async def _add_groups_with(
        self, kind: GroupKind, members: list[str], step: StepName
    ) -> list[str]:
        """Add the groups that list any of the given members' DNs; return the DNs of new groups."""
        parts = member_filters(kind.options.member_attribute, members)
        results = await self._gather([self._search(kind, step, text) for text in any_of(parts)])
        return await self._add_entries(kind, chain.from_iterable(results))

    async def _add_groups_listing_name(self, kind: GroupKind) -> None:
        """Add the groups that list the user's name, and the group with the user's gidNumber."""
        parts = member_filters(kind.options.member_attribute, [self.user_name])
        has_primary = self._options.primary_group == "gid_number" and kind is self.kinds[0]
        gid = _gid(self.user) if has_primary else None
        attributes = kind.attributes
        if gid is not None:
            parts.append(equals(_GID, gid))
            attributes = (*attributes, _GID)
        text = f"(|{''.join(parts)})"
        entries = await self._search(kind, "group search", text, attributes)
        if gid is not None:
            entries.sort(key=lambda entry: gid.encode() not in entry.values(_GID))
            if not entries or gid.encode() not in entries[0].values(_GID):
                # As in NSS, a group without a name is identified by its number.
                self._add_name(gid, gid)
        await self._add_entries(kind, entries)

    async def _add_gid_group(self, kind: GroupKind) -> None:
        """Add the group with the user's gidNumber, or the number itself if no group has it."""
        gid = _gid(self.user)
        text = all_of(POSIX_GROUPS, equals(_GID, gid))
        entries = await self._search_primary_group(kind, text)
        if entries:
            await self._add_entries(kind, entries)
        else:
            self._add_name(gid, gid)

    async def _add_ad_primary_group(self, kind: GroupKind) -> list[str]:
        """Add the group identified by the user's primaryGroupID; return its DN."""
        filter_text = ad_primary_group_filter(*map(self.user.values, _AD_PRIMARY_GROUP))
        if filter_text is None:
            raise UnusableData(
                "the user's entry has no readable primaryGroupID and objectSid",
                "set primary_group: none",
            )
        entries = await self._search_primary_group(kind, filter_text)
        if not entries:
            raise UnusableData(
                "the user's primary group is not below group_base",
                "set group_base to the root of the domain, or primary_group: none",
            )
        return await self._add_entries(kind, entries)

    async def _add_in_chain(self, kind: GroupKind, above: list[str]) -> None:
        """Add all groups that contain the user or a DN in `above`, directly or through nesting."""
        if not await self.session.is_active_directory():
            raise SetupFault(
                "the server is not Active Directory, which in-chain searches require",
                "set nested: walk",
            )
        parts = member_filters(kind.options.member_attribute, [self.user.dn, *above], IN_CHAIN)
        for text in any_of(parts):
            await self._add_entries(kind, await self._search(kind, "nested search", text))

    async def _walk_up(self, above: list[str]) -> None:
        """Add parent groups with one search per level and kind. Cycles are not followed."""
        kinds = [kind for kind in self.kinds if kind.options.groups_from != "member_uid"]
        for _ in range(self._options.nested_depth):
            if not above:
                return
            next_level: list[str] = []
            for kind in kinds:
                next_level += await self._add_groups_with(kind, above, "nested search")
            above = next_level
        if above:
            self.statistics.depth_reached += 1
            _LOG.warning(
                "nested groups of %r were followed for %d levels; deeper ones are ignored. If "
                "there are any, raise nested_depth for the resolver with user_base %s",
                self.user_name,
                self._options.nested_depth,
                "; ".join(self._options.user_base),
            )

    async def _gather(self, calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run requests concurrently, using at most half of the connection's capacity."""
        return await gather(calls, max(1, self._options.max_in_flight // 2))

    async def _search(
        self,
        kind: GroupKind,
        step: StepName,
        filter_text: str,
        attributes: tuple[str, ...] | None = None,
    ) -> list[LdapEntry]:
        entries = await self.session.search(
            step,
            kind.options.group_base or "",
            all_of(kind.options.group_filter, filter_text),
            attributes or kind.attributes,
            limit=self._options.max_groups,
        )
        return await self._below_base(kind, entries)

    async def _search_primary_group(self, kind: GroupKind, filter_text: str) -> list[LdapEntry]:
        base = kind.options.group_base or ""
        entries = await self.session.search(
            "primary group", base, filter_text, kind.attributes, limit=1, advice=_ONE_PRIMARY_GROUP
        )
        return await self._below_base(kind, entries)

    async def _below_base(self, kind: GroupKind, entries: list[LdapEntry]) -> list[LdapEntry]:
        """Drop entries outside `group_base`; a faulty server may return some."""
        inside: list[LdapEntry] = []
        async for entry in self.session.in_steps(entries):
            group = kind.parse(entry.dn)
            if group is None or group.is_below_base:
                inside.append(entry)
            else:
                self.statistics.note_outside(entry.dn, "group_base")
        return inside

    async def _add_entries(self, kind: GroupKind, entries: Iterable[LdapEntry]) -> list[str]:
        """Add the groups in the given entries; return the DNs of new groups."""
        new: list[str] = []
        async for entry in self.session.in_steps(entries):
            group = self._add_dn(kind, entry.dn)
            if group is not None:
                new.append(entry.dn)
                name = kind.name_in(entry) if group.name is None else group.name
                self._add_name(name, entry.dn, group.key)
        return new

    def _add_dn(self, kind: GroupKind, dn: str) -> GroupDn | None:
        """Return a group and mark it as seen; None if already seen or outside `group_base`."""
        group = kind.parse(dn)
        if group is None:
            self.statistics.note_skipped(dn)
            return None
        if not group.is_below_base:
            # Not an error: in FreeIPA, memberOf also lists roles and rules.
            self.statistics.ignored_memberships += 1
            self.statistics.ignored_example = dn
            return None
        if group.key in self._seen:
            return None
        self._seen.add(group.key)
        self._check_limit(len(self._seen))
        return group

    def _check_limit(self, count: int) -> None:
        if count > self._options.max_groups:
            raise UnusableData(
                f"the user is in more than {self._options.max_groups} groups",
                "raise max_groups if that is expected",
            )


def _gid(entry: LdapEntry) -> str:
    values = [decode_value(value) or "" for value in entry.values(_GID)]
    if len(values) != 1 or not (values[0].isascii() and values[0].isdecimal()):
        raise UnusableData("the user's entry has no readable gidNumber", "set primary_group: none")
    return values[0]
