"""The groups of a user: memberOf, group searches, nested groups and the primary group.

Everything raises LdapFault rather than returning a part of the groups.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import ldap

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.identity.resolvers.ldap.dn import (
    ParsedDn,
    SearchBase,
    normalize,
    parse_dn,
)
from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.filters import escape, escape_bytes
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics, StepName
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import LdapEntry, SearchSession

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_MAX_FILTER_PARTS: Final = 100
_MAX_FILTER_CHARS: Final = 32_768
_GID: Final = "gidNumber"
_ONE_PRIMARY_GROUP: Final = "let only one group have this number, or narrow group_base"
_AD_PRIMARY_GROUP: Final = ("primaryGroupID", "objectSid")
_AD_IN_CHAIN: Final = ":1.2.840.113556.1.4.1941:"
_MAX_CACHED_DNS: Final = 65_536
_RID_BYTES: Final = 4
_MAX_RID: Final = 2**32
_MAX_RID_DIGITS: Final = 10
_MIN_SID_BYTES: Final = 12


class GroupDn(NamedTuple):
    """The distinguished name of a group."""

    key: str
    """The same for all spellings of the DN."""
    is_below_base: bool
    """Whether the group is below `group_base`."""
    name: str | None
    """The group's name; None if it must be read from the entry."""


class GroupDns:
    """Parses the DNs of groups, and caches them: many users share few groups."""

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self._base = SearchBase(options.group_base or "")
        self.parse = lru_cache(maxsize=_MAX_CACHED_DNS)(self._parse)
        """Returns a GroupDn; None if the text is no DN, or that of the root."""

    def name_in(self, entry: LdapEntry) -> str | None:
        """Return the name in the entry of a group; None if it has none."""
        values = entry.values(self._options.group_name_attribute)
        texts = sorted(filter(None, map(decode_value, values)))
        return self._apply_case(texts[0]) if texts else None

    def _parse(self, dn: str) -> GroupDn | None:
        parsed = parse_dn(dn)
        if not parsed:
            return None
        normalized = normalize(parsed)
        return GroupDn(repr(normalized), self._base.contains(normalized), self._name_in(parsed))

    def _name_in(self, parsed: ParsedDn) -> str | None:
        rdn = parsed[0]
        if self._options.group_name_from == "rdn":
            _, value, kind = rdn[0]
            return None if kind & ldap.AVA_BINARY else self._apply_case(value)
        wanted = self._options.group_name_attribute.lower()
        for attribute, value, kind in rdn:
            # A value as `#hex` is not text, and the driver does not decode it.
            if attribute.lower() == wanted and not kind & ldap.AVA_BINARY:
                return self._apply_case(value)
        return None

    def _apply_case(self, name: str) -> str:
        return name.lower() if self._options.name_case == "lower" else name


def decode_value(value: bytes) -> str | None:
    """Return a value as text; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def user_attributes(options: LdapOptions) -> tuple[str, ...]:
    """Return the attributes of users from which their groups follow."""
    wanted: tuple[str, ...] = ()
    if options.groups_from == "member_of" and options.nested != "in_chain":
        wanted += (options.member_of_attribute,)
    if options.primary_group == "gid_number":
        wanted += (_GID,)
    if options.primary_group == "active_directory":
        wanted += _AD_PRIMARY_GROUP
    return wanted


class GroupLookup:
    """One look-up of the groups of one user.

    Their names are kept in order of arrival, each once, up to `max_groups`.
    """

    def __init__(
        self,
        session: SearchSession,
        dns: GroupDns,
        statistics: LdapStatistics,
        user: LdapEntry,
        user_name: str,
    ) -> None:
        self._options = options = session.options
        self._statistics = statistics
        self._dns = dns
        self._session = session
        self._user = user
        self._user_name = user_name
        # Every group has a DN, which most often contains the name.
        self._attributes: tuple[str, ...] = (
            (options.group_name_attribute,) if options.group_name_from == "attribute" else ("1.1",)
        )
        self._seen: set[str] = set()
        self._names: dict[str, None] = {}

    async def groups(self, asked: str) -> tuple[str, ...]:
        """Return the names of all groups, the primary group first.

        Args:
            asked: The user's name as the caller spells it.
        """
        options = self._options
        if options.primary_group == "user_name":
            self._add_name(asked, asked)
        above: list[str] = []
        if options.primary_group == "active_directory":
            above += await self._add_ad_primary_group()
        elif options.primary_group == "gid_number" and options.groups_from != "member_uid":
            await self._add_gid_group()
        if options.nested == "in_chain":
            await self._add_in_chain(above)
        elif options.groups_from == "member_of":
            above += await self._add_member_of()
        elif options.groups_from == "member_dn":
            above += await self._add_groups_with([self._user.dn], "group search")
        else:
            await self._add_groups_listing_name()
        if options.nested == "walk":
            await self._walk_up(above)
        return tuple(self._names)

    def _add_name(self, name: str | None, source: str) -> None:
        """Add a name; skip a group without one, or with control characters in it.

        No access list names such a group, so leaving it out changes no answer; requests must not
        state it either.
        """
        if name and not CONTROL_CHARACTER.search(name):
            self._names[name] = None
            self._check_limit(len(self._names) - 1)
        else:
            self._skip(source)

    async def _add_member_of(self) -> list[str]:
        """Add the groups in the user's memberOf; return the DNs of those that are new."""
        options = self._options
        new: list[str] = []
        nameless: list[str] = []
        for value in await self._session.all_values(self._user, options.member_of_attribute):
            dn = decode_value(value)
            if dn is None:
                self._skip(repr(value))
                continue
            group = self._add_dn(dn)
            if group is None:
                continue
            if group.name is None:
                nameless.append(dn)
            else:
                self._add_name(group.name, dn)
            new.append(dn)
        entries = await _gather(
            self._session.read("group names", dn, self._attributes) for dn in nameless
        )
        for dn, entry in zip(nameless, entries, strict=True):
            self._add_name(self._dns.name_in(entry) if entry else None, dn)
        return new

    async def _add_groups_with(self, members: list[str], step: StepName) -> list[str]:
        """Add the groups that list any of these DNs; return the DNs of those that are new."""
        parts = self._member_filters(members)
        found = await _gather(self._search(step, text) for text in _any_of(parts))
        return self._add_entries(entry for entries in found for entry in entries)

    async def _add_groups_listing_name(self) -> None:
        """Add the groups that list the user's name, and that of the user's gidNumber."""
        parts = self._member_filters([self._user_name])
        gid = _gid(self._user) if self._options.primary_group == "gid_number" else None
        attributes = self._attributes
        if gid is not None:
            parts.append(f"({_GID}={gid})")
            attributes = (*attributes, _GID)
        text = f"(|{''.join(parts)})"
        found = await self._search("group search", text, attributes)
        if gid is not None:
            found.sort(key=lambda entry: gid.encode() not in entry.values(_GID))
            if not found or gid.encode() not in found[0].values(_GID):
                # Like NSS: a group without a name goes by its number.
                self._add_name(gid, gid)
        self._add_entries(found)

    async def _add_gid_group(self) -> None:
        """Add the group of the user's gidNumber."""
        gid = _gid(self._user)
        found = await self._search_primary_group(f"(&(objectClass=posixGroup)({_GID}={gid}))")
        if found:
            self._add_entries(found)
        else:
            self._add_name(gid, gid)

    async def _add_ad_primary_group(self) -> list[str]:
        """Add the group of the user's primaryGroupID; return its DN."""
        found = await self._search_primary_group(_ad_primary_group_filter(self._user))
        if not found:
            raise SetupFault(
                "the user's primary group is not below group_base",
                "set group_base to the root of the domain, or primary_group: none",
            )
        return self._add_entries(found)

    async def _add_in_chain(self, above: list[str]) -> None:
        """Add all groups that contain the user or one of these DNs, directly or by nesting."""
        if not await self._session.is_active_directory():
            raise SetupFault(
                "the server is no Active Directory, and others find nothing by in-chain searches",
                "set nested: walk",
            )
        parts = self._member_filters([self._user.dn, *above], _AD_IN_CHAIN)
        for text in _any_of(parts):
            self._add_entries(await self._search("nested search", text))

    async def _walk_up(self, above: list[str]) -> None:
        """Add the groups of groups, one search for each level; cycles end it."""
        for _ in range(self._options.nested_depth):
            if not above:
                return
            above = await self._add_groups_with(above, "nested search")
        if above:
            self._statistics.depth_reached += 1

    def _member_filters(self, members: list[str], rule: str = "") -> list[str]:
        return [
            f"({attribute}{rule}={escape(member)})"
            for member in members
            for attribute in self._options.member_attribute
        ]

    async def _search(
        self, step: StepName, filter_text: str, attributes: tuple[str, ...] | None = None
    ) -> list[LdapEntry]:
        options = self._options
        found = await self._session.search(
            step,
            options.group_base or "",
            f"(&{options.group_filter}{filter_text})",
            attributes or self._attributes,
            limit=options.max_groups,
        )
        return self._below_base(found)

    async def _search_primary_group(self, filter_text: str) -> list[LdapEntry]:
        base = self._options.group_base or ""
        found = await self._session.search(
            "primary group", base, filter_text, self._attributes, limit=1, advice=_ONE_PRIMARY_GROUP
        )
        return self._below_base(found)

    def _below_base(self, entries: list[LdapEntry]) -> list[LdapEntry]:
        """Return the entries without those outside of `group_base`, which no search may find."""
        inside: list[LdapEntry] = []
        for entry in entries:
            group = self._dns.parse(entry.dn)
            if group is None or group.is_below_base:
                inside.append(entry)
            else:
                self._statistics.note_outside(entry.dn, "group_base")
        return inside

    def _add_entries(self, entries: Iterable[LdapEntry]) -> list[str]:
        """Add groups whose entries were read; return the DNs of those that are new."""
        new: list[str] = []
        for entry in entries:
            group = self._add_dn(entry.dn)
            if group is not None:
                new.append(entry.dn)
                name = self._dns.name_in(entry) if group.name is None else group.name
                self._add_name(name, entry.dn)
        return new

    def _add_dn(self, dn: str) -> GroupDn | None:
        """Return a group that is new and below the base, without adding its name; else None."""
        group = self._dns.parse(dn)
        if group is None:
            self._skip(dn)
            return None
        if not group.is_below_base or group.key in self._seen:
            return None
        self._seen.add(group.key)
        self._check_limit(len(self._seen))
        return group

    def _skip(self, source: str) -> None:
        self._statistics.skipped_names += 1
        _LOG.warning("a group has no readable name: %.200r", source)

    def _check_limit(self, count: int) -> None:
        if count > self._options.max_groups:
            raise SetupFault(
                f"the user is in more than {self._options.max_groups} groups",
                "raise max_groups if that is right",
            )


def _gid(entry: LdapEntry) -> str:
    values = [decode_value(value) or "" for value in entry.values(_GID)]
    if len(values) != 1 or not (values[0].isascii() and values[0].isdecimal()):
        raise SetupFault("the user's entry has no readable gidNumber", "set primary_group: none")
    return values[0]


def _ad_primary_group_filter(user: LdapEntry) -> str:
    """Return the filter for the group that a user's primaryGroupID names.

    Its SID is that of the user with another last number (MS-ADTS 3.1.1.1.3, MS-DTYP 2.4.2).
    """
    numbers, sids = (user.values(name) for name in _AD_PRIMARY_GROUP)
    number = numbers[0] if len(numbers) == 1 else b""
    sid = sids[0] if len(sids) == 1 else b""
    is_rid = number.isdigit() and len(number) <= _MAX_RID_DIGITS and int(number) < _MAX_RID
    if not is_rid or len(sid) < _MIN_SID_BYTES:
        raise SetupFault(
            "the user's entry has no readable primaryGroupID and objectSid",
            "set primary_group: none",
        )
    group = sid[:-_RID_BYTES] + int(number).to_bytes(_RID_BYTES, "little")
    return f"(objectSid={escape_bytes(group)})"


def _any_of(parts: list[str]) -> Iterator[str]:
    """Yield filters that match any of the parts, as many in each as servers accept."""
    chunk: list[str] = []
    length = 0
    for part in parts:
        if chunk and (len(chunk) == _MAX_FILTER_PARTS or length + len(part) > _MAX_FILTER_CHARS):
            yield f"(|{''.join(chunk)})"
            chunk, length = [], 0
        chunk.append(part)
        length += len(part)
    if chunk:
        yield chunk[0] if len(chunk) == 1 else f"(|{''.join(chunk)})"


async def _gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all calls in order; the first failure ends the other calls."""
    several = list(calls)
    if len(several) == 1:
        return [await several[0]]
    tasks = [asyncio.ensure_future(call) for call in several]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
