"""Where the groups of a user come from. Everything here raises LdapFault, never a part."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from queuegate_server.identity.resolvers.ldap import active_directory
from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.filters import escape
from queuegate_server.identity.resolvers.ldap.group_list import GroupList
from queuegate_server.identity.resolvers.ldap.instrumentation import Statistics
from queuegate_server.identity.resolvers.ldap.names import GroupDns, text_of
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Entry, Session
from queuegate_server.identity.resolvers.ldap.users import FoundUser

T = TypeVar("T")

_CHUNK: Final = 100
_LONGEST_FILTER: Final = 32_768
_POSIX_GROUP: Final = "(objectClass=posixGroup)"
_GID: Final = "gidNumber"
_ONE_PRIMARY_GROUP: Final = "let one group only have this number, or narrow group_base"


class Strategy:
    """Gathers the groups of users as the options say. Used from one event loop."""

    def __init__(self, options: LdapOptions, statistics: Statistics) -> None:
        self._options = options
        self._statistics = statistics
        self._dns = GroupDns(options)
        self._base = options.group_base or ""
        # The DN of a group is always there, and most often enough.
        self._group_attributes = (
            (options.group_name_attribute,) if options.group_name_from == "attribute" else ("1.1",)
        )

    @property
    def user_attributes(self) -> tuple[str, ...]:
        """What must be read from a user's entry."""
        options = self._options
        wanted: tuple[str, ...] = ()
        if options.groups_from == "member_of" and options.nested != "in_chain":
            wanted += (options.member_of_attribute,)
        if options.primary_group == "gid_number":
            wanted += (_GID,)
        if options.primary_group == "active_directory":
            wanted += active_directory.USER_ATTRIBUTES
        return wanted

    async def groups(self, session: Session, user: FoundUser, asked: str) -> tuple[str, ...]:
        """Return the names of all groups of a user, the primary group first."""
        options = self._options
        groups = GroupList(options, self._statistics, self._dns)
        above: list[str] = []
        if options.primary_group == "user_name":
            groups.add_name(asked, asked)
        elif options.primary_group == "active_directory":
            above += groups.add_entries([await self._primary_group(session, user.entry)])
        elif options.primary_group == "gid_number" and options.groups_from != "member_uid":
            await self._group_of_gid(session, user.entry, groups)
        if options.nested == "in_chain":
            await self._in_chain(session, user.entry, above, groups)
            return groups.names
        if options.groups_from == "member_of":
            above += await self._member_of(session, user.entry, groups)
        elif options.groups_from == "member_dn":
            above += await self._groups_with(session, "group search", [user.entry.dn], groups)
        else:
            await self._groups_with_name(session, user, groups)
        if options.nested == "walk":
            await self._walk_up(session, above, groups)
        return groups.names

    async def _member_of(self, session: Session, entry: Entry, groups: GroupList) -> list[str]:
        values = await session.all_values(entry, self._options.member_of_attribute)
        new: list[str] = []
        nameless: list[str] = []
        for value in values:
            dn = text_of(value)
            if dn is None:
                groups.skip(repr(value))
                continue
            group = groups.new(dn)
            if group is None:
                continue
            if group.name is None:
                nameless.append(dn)
            else:
                groups.add_name(group.name, dn)
            new.append(dn)
        entries = await _all_of(
            session.read("group names", dn, self._group_attributes) for dn in nameless
        )
        for dn, read in zip(nameless, entries, strict=True):
            groups.add_name(self._dns.name_of(read) if read else None, dn)
        return new

    async def _groups_with(
        self, session: Session, step: str, members: list[str], groups: GroupList
    ) -> list[str]:
        """Add the groups that list any of these DNs; return the DNs of those that are new."""
        parts = [
            f"({attribute}={escape(dn)})"
            for dn in members
            for attribute in self._options.member_attribute
        ]
        found = await _all_of(self._search(session, step, text) for text in _any_of(parts))
        return groups.add_entries(entry for entries in found for entry in entries)

    async def _groups_with_name(self, session: Session, user: FoundUser, groups: GroupList) -> None:
        options = self._options
        parts = [f"({attribute}={escape(user.name)})" for attribute in options.member_attribute]
        gid = _gid(user.entry) if options.primary_group == "gid_number" else None
        attributes: tuple[str, ...] = self._group_attributes
        if gid is not None:
            parts.append(f"({_GID}={gid})")
            attributes = (*attributes, _GID)
        text = parts[0] if len(parts) == 1 else f"(|{''.join(parts)})"
        found = await self._search(session, "group search", text, attributes)
        if gid is not None:
            found.sort(key=lambda entry: gid.encode() not in entry.values(_GID))
            if not found or gid.encode() not in found[0].values(_GID):
                # As the system's user database does: a group without a name goes by its id.
                groups.add_name(gid, gid)
        groups.add_entries(found)

    async def _group_of_gid(self, session: Session, entry: Entry, groups: GroupList) -> None:
        gid = _gid(entry)
        text = f"(&{_POSIX_GROUP}({_GID}={gid}))"
        found = await session.search(
            "primary group",
            self._base,
            text,
            self._group_attributes,
            most=1,
            advice=_ONE_PRIMARY_GROUP,
        )
        if found:
            groups.add_entries(found)
        else:
            groups.add_name(gid, gid)

    async def _primary_group(self, session: Session, entry: Entry) -> Entry:
        text = active_directory.primary_group_filter(entry)
        found = await session.search(
            "primary group",
            self._base,
            text,
            self._group_attributes,
            most=1,
            advice=_ONE_PRIMARY_GROUP,
        )
        if not found:
            raise SetupFault(
                "the user's primary group is not below group_base",
                "set group_base to the root of the domain, or primary_group: none",
            )
        return found[0]

    async def _walk_up(self, session: Session, above: list[str], groups: GroupList) -> None:
        """Add the groups of groups, level by level, a search each; cycles end it."""
        for _ in range(self._options.nested_depth):
            if not above:
                return
            above = await self._groups_with(session, "nested search", above, groups)
        if above:
            self._statistics.depth_reached += 1

    async def _in_chain(
        self, session: Session, entry: Entry, above: list[str], groups: GroupList
    ) -> None:
        if not await session.is_active_directory():
            raise SetupFault(
                "the server is no Active Directory, and others answer in-chain searches with "
                "nothing",
                "set nested: walk",
            )
        members = [entry.dn, *above]
        parts = [
            active_directory.in_chain(attribute, dn)
            for dn in members
            for attribute in self._options.member_attribute
        ]
        for text in _any_of(parts):
            groups.add_entries(await self._search(session, "nested search", text))

    async def _search(
        self, session: Session, step: str, text: str, attributes: tuple[str, ...] | None = None
    ) -> list[Entry]:
        options = self._options
        return await session.search(
            step,
            self._base,
            f"(&{options.group_filter}{text})",
            attributes or self._group_attributes,
            most=options.max_groups,
        )


def _gid(entry: Entry) -> str:
    values = [text_of(value) or "" for value in entry.values(_GID)]
    if len(values) != 1 or not (values[0].isascii() and values[0].isdecimal()):
        raise SetupFault(
            "the user's entry has no gidNumber that can be read", "set primary_group: none"
        )
    return values[0]


def _any_of(parts: list[str]) -> Iterable[str]:
    """Yield filters that match any of the parts, so many in each as a server takes."""
    chunk: list[str] = []
    length = 0
    for part in parts:
        if chunk and (len(chunk) == _CHUNK or length + len(part) > _LONGEST_FILTER):
            yield f"(|{''.join(chunk)})"
            chunk, length = [], 0
        chunk.append(part)
        length += len(part)
    if chunk:
        yield chunk[0] if len(chunk) == 1 else f"(|{''.join(chunk)})"


async def _all_of(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all calls return, in order; the first that fails ends the others."""
    several = list(calls)
    if len(several) == 1:
        return [await several[0]]
    tasks = [asyncio.ensure_future(call) for call in several]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
