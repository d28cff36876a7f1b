"""Follows changes in Active Directory with the DirSync control (MS-ADTS 3.1.1.3.4.1.3).

The follower asks a domain controller every few seconds what has changed since a cookie. Members
that were added to or removed from a group are listed one by one. Any other change to a group counts
as affecting all users, because the members are not listed.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from ldap.controls import RequestControl, ResponseControl

from queuegate_server.identity.resolver import ChangeSink
from queuegate_server.identity.resolvers.ldap.account_state import NOT_IN_ACTIVE_DIRECTORY
from queuegate_server.identity.resolvers.ldap.ber import (
    INTEGER,
    OCTETS,
    SEQUENCE,
    BerReader,
    element,
)
from queuegate_server.identity.resolvers.ldap.change_positions import (
    decode_position,
    encode_position,
)
from queuegate_server.identity.resolvers.ldap.change_reporter import ChangeReporter
from queuegate_server.identity.resolvers.ldap.entries import (
    RANGE_OPTION,
    GroupKind,
    LdapEntry,
    SearchBase,
    decode_value,
    dn_key,
    normalize,
    parse_dn,
)
from queuegate_server.identity.resolvers.ldap.filters import or_deleted
from queuegate_server.identity.resolvers.ldap.followed_messages import FollowedMessage
from queuegate_server.identity.resolvers.ldap.group_lookup import user_attributes
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection, SearchQuery
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    ServerFault,
    SetupFault,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import Allowance, Receiver, entry_allowance
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.sync_changes import AffectedUsers
from queuegate_server.identity.resolvers.ldap.user_lookup import UserKind, UserLookup

CHANGES_SECONDS: Final = 5.0
"""How often Active Directory is asked for changes, with one request for each `group_base`."""
DIRSYNC: Final = "1.2.840.113556.1.4.841"
INCREMENTAL_VALUES: Final = b"\x80\0\0\0"
"""The LDAP_DIRSYNC_INCREMENTAL_VALUES flag, as a signed integer."""
PAGE_BYTES: Final = 2**20
PAGE_SECONDS: Final = 60.0
"""How long a server may take for a page; the first pages contain all groups."""
MAX_PAGES: Final = 10_000
"""The maximum number of pages in an answer."""
_NEW: Final = "objectClass"
"""An attribute that never changes, so it is sent only for new entries."""
_RENAMED: Final = "name"
"""An attribute that changes when an entry is renamed or moved."""
_DELETED: Final = "isDeleted"
_ADVICE: Final = (
    "grant the bind account the Replicating Directory Changes right, and use a domain controller "
    "rather than a global catalog; or set changes: none"
)


class DirSyncFollower:
    """Follows a directory once, from connecting until a fault."""

    def __init__(
        self,
        options: LdapOptions,
        pool: ServerPool,
        lookup: UserLookup,
        sink: ChangeSink,
    ) -> None:
        """Create a follower that reports changes to `sink`."""
        self._options = options
        self._pool = pool
        self._sink = sink
        self._reporter = ChangeReporter(options, lookup.users, sink, pool)
        self._parts: list[GroupChanges | UserChanges] = [
            GroupChanges(kind, lookup.users) for kind in lookup.kinds
        ]
        if options.changes_of_users:
            self._parts += [UserChanges(base, lookup.users, options) for base in options.user_base]

    async def run(self) -> None:
        """Follow the directory until cancelled. Raises LdapFault."""
        server, _ = await self._pool.connection()
        url = str(server.url)
        connection = await self._pool.connector.connect(server.url)
        try:
            contexts = await _naming_contexts(connection)
            queries = [_query(part, contexts) for part in self._parts]
            cookies = await self._start(connection, url, queries)
            while True:
                await asyncio.sleep(CHANGES_SECONDS)
                server, _ = await self._pool.connection()
                if str(server.url) != url:
                    raise ServerFault(f"lookups use {server.url} instead of {url} now")
                affected = AffectedUsers()
                for number, (part, query) in enumerate(zip(self._parts, queries, strict=True)):
                    cookies[number] = await _ask(connection, query, cookies[number], part, affected)
                await self._reporter.report(affected, self._position(url, cookies))
                self._reporter.reports.repeat()
        finally:
            connection.close()

    async def _start(
        self, connection: LdapConnection, url: str, queries: Sequence[SearchQuery]
    ) -> list[bytes]:
        """Report what has changed since the known position; return the cookies at which to
        continue.

        Without a known position, all entries are read once for the cookies.
        """
        before = self._sink.position
        known = {} if before is None else decode_position(before, url)
        cookies: list[bytes] = []
        affected = AffectedUsers()
        for number, (part, query) in enumerate(zip(self._parts, queries, strict=True)):
            cookie = known.get(str(number), b"")
            if cookie:
                with contextlib.suppress(LdapFault):  # the server no longer knows the cookie
                    cookies.append(await _ask(connection, query, cookie, part, affected))
                    continue
            affected.is_all |= before is not None
            cookies.append(await _ask(connection, query, b"", part, None))
        await self._reporter.report(affected, self._position(url, cookies))
        return cookies

    def _position(self, url: str, cookies: Sequence[bytes]) -> bytes:
        return encode_position(url, {str(number): each for number, each in enumerate(cookies)})


class GroupChanges:
    """Determines which users a changed group affects."""

    def __init__(self, kind: GroupKind, users: UserKind) -> None:
        """Create an instance for one kind of group."""
        options = kind.options
        self.base: Final = options.group_base or ""
        # Deleted groups have lost most attributes by which a filter could recognize them.
        self.filter: Final = or_deleted(options.group_filter, "group")
        self._names = kind.attributes if options.group_name_from == "attribute" else ()
        members = options.member_attribute
        # Added values are in the range 1-1, removed ones in 0-0.
        self._ranges = [
            f"{attribute}{suffix}"
            for attribute in members
            for suffix in ("", f"{RANGE_OPTION}0-0", f"{RANGE_OPTION}1-1")
        ]
        self.attributes: Final = (*members, *self._names, _NEW, _RENAMED, _DELETED)
        self._below = SearchBase(self.base)
        self._users = users

    def add(self, entry: LdapEntry, affected: AffectedUsers) -> Iterator[None]:
        """Add the users affected by an entry. Yields where a step may end."""
        if _has_moved(entry):
            affected.is_all = True
            return
        if not self._below.contains_entry(entry.dn):
            return
        if not entry.values(_NEW) and any(map(entry.values, self._names)):
            affected.is_all = True
        for name in self._ranges:
            for value in entry.values(name):
                if affected.is_all:
                    return
                self._add_member(value, affected)
                yield

    def _add_member(self, value: bytes, affected: AffectedUsers) -> None:
        """Add the user whose DN is a value, or all users if the value may be the DN of a group."""
        text = decode_value(value)
        parsed = None if text is None else parse_dn(text)
        if text is None or not parsed:
            affected.is_all = True
            return
        normalized = normalize(parsed)
        if self._users.base.contains(normalized):
            affected.add(AffectedUsers(dns={dn_key(normalized): text}))
        else:
            affected.is_all = True  # it may be a group


class UserChanges:
    """Determines whether a changed user's groups may have changed."""

    def __init__(self, base: str, users: UserKind, options: LdapOptions) -> None:
        """Create an instance for the users below one base."""
        self.base: Final = base
        self._users = users
        self._names = users.filter.attributes
        self.filter: Final = or_deleted(users.filter.for_anyone(), "user")
        self.attributes: Final = (
            *self._names,
            *(each for each in user_attributes(options) if each not in NOT_IN_ACTIVE_DIRECTORY),
            _NEW,
            _RENAMED,
            _DELETED,
        )
        self._below = SearchBase(base, options.user_scope)

    def add(self, entry: LdapEntry, affected: AffectedUsers) -> Iterator[None]:
        """Add the users affected by an entry. Yields where a step may end."""
        yield
        if _has_moved(entry):
            affected.is_all = True
        elif self._below.contains_entry(entry.dn):
            if entry.values(_NEW):
                affected.add(AffectedUsers(names={*self._users.few_names(entry)}))
            elif any(map(entry.values, self._names)):
                affected.is_all = True  # the former name is unknown
            else:
                key = entry.key
                affected.add(AffectedUsers(dns={key: entry.dn}))


def _has_moved(entry: LdapEntry) -> bool:
    """Return whether an entry was deleted, renamed or moved, and may have been below the base."""
    return bool(entry.values(_DELETED) or (entry.values(_RENAMED) and not entry.values(_NEW)))


def dirsync_control(cookie: bytes) -> RequestControl:
    """Return a DirSync request control. `cookie` is empty for all entries."""
    content = element(INTEGER, INCREMENTAL_VALUES)
    content += element(INTEGER, PAGE_BYTES.to_bytes(4)) + element(OCTETS, cookie)
    return RequestControl(DIRSYNC, True, element(SEQUENCE, content))


def decode_dirsync(controls: Sequence[ResponseControl]) -> tuple[bool, bytes]:
    """Return whether more results follow, and the next cookie. Raises ValueError."""
    for control in controls:
        if control.controlType == DIRSYNC:
            content = BerReader(bytes(control.encodedControlValue or b"")).open(SEQUENCE)
            has_more = any(content.take(INTEGER))
            content.take(INTEGER)
            return has_more, content.take(OCTETS)
    raise ValueError("the DirSync control is missing")


async def _ask(
    connection: LdapConnection,
    query: SearchQuery,
    cookie: bytes,
    part: GroupChanges | UserChanges,
    affected: AffectedUsers | None,
) -> bytes:
    """Request the changes since a cookie; return the next cookie. Raises LdapFault.

    Adds the affected users to `affected`, if given.
    """
    requested = frozenset(map(str.lower, query.attributes)) | {"objectguid", "instancetype"}

    def receive(message: FollowedMessage) -> Iterator[None]:
        if affected is not None and not isinstance(message.content, bytes):
            entry = LdapEntry(message.name, message.content)
            entry.check_names(requested)
            yield from part.add(entry, affected)

    receiver = Receiver(receive, (DIRSYNC,))
    for _ in range(MAX_PAGES):
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                result = await connection.follow(
                    query, dirsync_control(cookie), entry_allowance(), receiver
                )
            has_more, cookie = decode_dirsync(result.controls)
        except TimeoutError:
            raise ServerFault(f"the server did not answer within {PAGE_SECONDS:g} s") from None
        except ValueError as error:
            raise ServerFault(f"the server sent an unreadable answer: {error}", _ADVICE) from None
        except UnusableData:
            raise
        except SetupFault as fault:
            raise SetupFault(fault.detail, _ADVICE) from None
        if not has_more:
            return cookie
    raise ServerFault(f"the server sent more than {MAX_PAGES} pages of changes")


async def _naming_contexts(connection: LdapConnection) -> Sequence[str]:
    """Return the roots of the server's databases. Raises LdapFault."""
    with SearchSession(connection, Allowance(1)) as session:
        root = await session.read("root entry", "", ["supportedControl", "namingContexts"])
    controls = root.values("supportedControl") if root else []
    if controls and DIRSYNC.encode() not in controls:
        raise SetupFault(
            "the server does not support the DirSync control",
            "for directories other than Active Directory, set changes: syncrepl or none",
        )
    return [
        text for text in map(decode_value, root.values("namingContexts") if root else ()) if text
    ]


def _query(part: GroupChanges | UserChanges, contexts: Sequence[str]) -> SearchQuery:
    """Return the search for a part of the directory, which must begin at the root of its database.

    Raises SetupFault.
    """
    base = normalize(parse_dn(part.base) or [])
    holders = [each for each in contexts if SearchBase(each).contains(base)]
    if not holders:
        raise SetupFault(
            f"the server has no naming context with {part.base:.200}", "check group_base, user_base"
        )
    return SearchQuery(max(holders, key=len), part.filter, tuple(dict.fromkeys(part.attributes)))
