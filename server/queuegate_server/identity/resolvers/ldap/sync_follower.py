"""Follows changes in a directory by content synchronization (RFC 4533).

Each part of the directory is read once and then kept up to date by the server, over a separate
connection to the server that lookups use. If an earlier follower's position is known, the server is
also asked whether anything has changed since then. If so, all users are invalidated, because
changes that no follower saw may have been undone by later ones.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

from ldap.controls import RequestControl, ResponseControl

from queuegate_server.identity.resolver import ChangeSink
from queuegate_server.identity.resolvers.ldap.change_positions import (
    decode_position,
    encode_position,
)
from queuegate_server.identity.resolvers.ldap.change_reporter import ChangeReporter
from queuegate_server.identity.resolvers.ldap.entries import LdapEntry
from queuegate_server.identity.resolvers.ldap.followed_messages import FollowedMessage
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection, SearchQuery
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    AccessDenied,
    LdapFault,
    ServerFault,
    SetupFault,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import Allowance, Receiver, entry_allowance
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.sync_changes import (
    AffectedUsers,
    FollowedContent,
    GroupEntries,
    UserEntries,
)
from queuegate_server.identity.resolvers.ldap.sync_messages import (
    RESPONSE_CONTROLS,
    SYNC_INFO,
    SYNC_REQUEST,
    EntryState,
    SyncMode,
    decode_info,
    decode_state,
    is_change_number,
    lists_deletions,
    sync_request,
)
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup
from queuegate_server.runtime.pacing import in_steps
from queuegate_server.runtime.resources import return_freed_memory, trim_heap

HEARTBEAT_SECONDS: Final = 10.0
"""The maximum interval between tests of the connection, in seconds."""
SILENCE_SECONDS: Final = 20.0
"""How long the server may be silent while entries are being read, in seconds. 389 Directory Server
does not report that a result exceeds one of its limits, but stays silent
(`sync_srch_refresh_pre_result` in its `ldap/servers/plugins/sync/sync_refresh.c`).
"""
_ADVICE: Final = (
    "enable it (OpenLDAP: overlay syncprov; FreeIPA: the content synchronization plugin), or set "
    "changes: none"
)
_DENIED: Final = (
    "let the bind account use the synchronization control (389 Directory Server: the aci of "
    f"oid={SYNC_REQUEST},cn=features,cn=config) and read groups and users"
)


class SyncFollower:
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
        self._content = FollowedContent(options, lookup.users, lookup.kinds)
        self._reporter = ChangeReporter(options, lookup.users, sink, pool, self._content.names_at)
        self._sink = sink
        self._affected = AffectedUsers()
        self._wake = asyncio.Event()
        self._is_reporting = False
        self._has_loaded = asyncio.Event()
        """Set once the first report has been made."""

    async def run(self) -> None:
        """Follow the directory until cancelled. Raises LdapFault."""
        return_freed_memory()  # freed by long messages, whose total size is limited
        server, _ = await self._pool.connection()
        connection = await self._pool.connector.connect(server.url)
        try:
            await _check_support(connection)
        except BaseException:
            connection.close()
            raise
        streams = [
            _Stream(connection, part, self._note, self._content.expect)
            for part in self._content.watched
        ]
        tasks = [asyncio.create_task(each.run()) for each in streams]
        tasks += [
            asyncio.create_task(self._follow(connection, str(server.url), streams)),
            asyncio.create_task(self._keep_testing(connection, str(server.url))),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            connection.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            async for _ in in_steps(self._content.clear()):
                pass
            # Otherwise, the next follower's messages would take new memory although much is free.
            await asyncio.to_thread(trim_heap)

    def _note(self, affected: AffectedUsers) -> None:
        """Record that users are affected, or that only the position has changed."""
        self._affected.add(affected)
        self._wake.set()

    async def _follow(
        self, connection: LdapConnection, url: str, streams: "Sequence[_Stream]"
    ) -> None:
        """Load the content once, then report its changes until the connection ends."""
        await _load(streams)
        self._content.is_loading = False
        self._reporter.reports.report(
            None if await self._has_changed(connection, url, streams) else (),
            _position(url, streams),
        )
        self._has_loaded.set()
        while True:
            due_at = self._reporter.reports.due_at
            seconds = None if due_at is None else max(0.0, due_at - time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            if self._wake.is_set():
                self._wake.clear()
                affected, self._affected = self._affected, AffectedUsers()
                self._is_reporting = True
                await self._reporter.report(affected, _position(url, streams))
                self._is_reporting = False
            self._reporter.reports.repeat()

    async def _keep_testing(self, connection: LdapConnection, url: str) -> None:
        """Test the connection regularly. Does not delay reports. Raises LdapFault."""
        await self._has_loaded.wait()
        while True:
            due_at = time.monotonic() + HEARTBEAT_SECONDS
            has_answered = await self._test(connection, url)
            is_changing = self._wake.is_set() or self._is_reporting
            if has_answered and not (is_changing or connection.is_receiving_change):
                # Otherwise, the report of the change will confirm that the directory is followed.
                self._sink.reached()
            await asyncio.sleep(due_at - time.monotonic())

    async def _has_changed(
        self, connection: LdapConnection, url: str, streams: "Sequence[_Stream]"
    ) -> bool:
        """Return whether anything may have changed since the known position, if there is one."""
        if self._sink.position is None:
            return False
        cookies = decode_position(self._sink.position, url)
        for stream in streams:
            cookie = cookies.get(stream.name)
            if cookie is None or is_change_number(cookie):
                return True
            if await _has_changed(connection, stream.query, cookie):
                return True
        return False

    async def _test(self, connection: LdapConnection, url: str) -> bool:
        """Check that lookups use the server, and return whether it answered. Raises LdapFault."""
        has_answered = await connection.verify()
        server, _ = await self._pool.connection()
        if str(server.url) != url:
            raise ServerFault(f"lookups use {server.url} instead of {url} now")
        return has_answered


class _Stream:
    """The synchronization of one part of a directory."""

    def __init__(
        self,
        connection: LdapConnection,
        part: GroupEntries | UserEntries,
        note: Callable[[AffectedUsers], None],
        expect: Callable[[int], None],
    ) -> None:
        self.query: Final = part.query
        self.name: Final = hashlib.sha256(repr(tuple(part.query)).encode()).hexdigest()[:16]
        """Identifies the part in positions."""
        self.cookie = b""
        self.is_loaded: Final = asyncio.Event()
        """Set once all entries have been read, so that only changes follow."""
        self.heard_at = time.monotonic()
        """When the server last sent something while entries were being read."""
        self._connection = connection
        self._part = part
        self._note = note
        self._expect = expect
        self._requested = frozenset(map(str.lower, part.query.attributes))

    async def run(self) -> None:
        """Read the part and follow its changes. Raises LdapFault."""
        try:
            await _synchronize(
                self._connection,
                self.query,
                sync_request(SyncMode.REFRESH_AND_PERSIST),
                Receiver(self._receive, RESPONSE_CONTROLS, self._hear, self._expect),
            )
        except AccessDenied as fault:
            raise SetupFault(fault.detail, _DENIED) from None
        except SetupFault as fault:
            raise SetupFault(fault.detail, fault.advice or _ADVICE) from None
        raise ServerFault("the server has ended the synchronization", _ADVICE)

    def _hear(self) -> None:
        if not self.is_loaded.is_set():
            self.heard_at = time.monotonic()

    def _receive(self, message: FollowedMessage) -> Iterator[None]:
        """Handle an entry or a Sync Info Message. Yields where a step may end. Raises LdapFault."""
        name, content, controls = message
        if not isinstance(content, bytes):
            self._note((yield from self._handle_entry(LdapEntry(name, content), controls)))
        elif name == SYNC_INFO:
            self._note((yield from self._handle_info(content)))
        self._expect(0)

    def _handle_entry(
        self, entry: LdapEntry, controls: Sequence[ResponseControl]
    ) -> Generator[None, None, AffectedUsers]:
        """Apply an entry that was sent, and return whom it affects. Yields to pause."""
        try:
            state = decode_state(controls)
        except ValueError as error:
            raise _unreadable(error) from None
        if state.state is EntryState.DELETE:
            affected = yield from self._part.remove(state.uuid)
        else:
            entry.check_names(self._requested)
            affected = yield from self._part.put(state.uuid, entry)
        self.cookie = state.cookie or self.cookie
        return affected

    def _handle_info(self, content: bytes) -> Generator[None, None, AffectedUsers]:
        try:
            info = decode_info(content)
        except ValueError as error:
            raise _unreadable(error) from None
        affected = AffectedUsers()
        for uuid in info.deleted:
            affected.add((yield from self._part.remove(uuid)))
        self.cookie = info.cookie or self.cookie
        if info.ends_refresh:
            self.is_loaded.set()
        return affected


async def _load(streams: "Sequence[_Stream]") -> None:
    """Wait until all entries have been read. Raises ServerFault if the server is silent.

    Only entries, of any part, count as a sign of life, because a server may send the parts one
    after the other; changes to parts that have already been read do not.
    """
    for stream in streams:
        while not stream.is_loaded.is_set():
            due_at = max(each.heard_at for each in streams) + SILENCE_SECONDS
            if time.monotonic() >= due_at:
                raise ServerFault(
                    "the server has not sent all entries, and has sent nothing for "
                    f"{SILENCE_SECONDS:g} s",
                    "raise its limits for the bind account (389 Directory Server: nsSizeLimit and "
                    "nsLookThroughLimit), or set changes: none",
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_at - time.monotonic()):
                    await stream.is_loaded.wait()


def _unreadable(error: ValueError) -> ServerFault:
    return ServerFault(f"the server sent an unreadable message about changes: {error}", _ADVICE)


async def _check_support(connection: LdapConnection) -> None:
    """Raise SetupFault if the server's root entry lists controls, but not synchronization."""
    with SearchSession(connection, Allowance(1)) as session:
        root = await session.read("root entry", "", ["supportedControl"])
    controls = root.values("supportedControl") if root else []
    if controls and SYNC_REQUEST.encode() not in controls:
        raise SetupFault("the server does not support content synchronization (RFC 4533)", _ADVICE)


async def _synchronize(
    connection: LdapConnection,
    query: SearchQuery,
    control: RequestControl,
    receiver: Receiver,
) -> Sequence[Any]:
    """Run a synchronization; return the controls of its result. Raises LdapFault."""
    result = await connection.follow(query, control, entry_allowance(), receiver)
    return result.controls


class _Changed(LdapFault):
    """Something has changed; the rest is not needed."""


async def _has_changed(connection: LdapConnection, query: SearchQuery, cookie: bytes) -> bool:
    """Return whether a part of the directory may have changed since `cookie`.

    Raises ServerFault if the server fails.
    """

    def expect(_size: int) -> None:
        raise _Changed("")

    receiver = Receiver(lambda _: iter(()), RESPONSE_CONTROLS, expect=expect)
    try:
        controls = await _synchronize(
            connection, query, sync_request(SyncMode.REFRESH_ONLY, cookie), receiver
        )
    except ServerFault:
        raise
    except LdapFault:  # also if the server no longer knows the cookie
        return True
    try:
        return not lists_deletions(controls)
    except ValueError:
        return True


def _position(url: str, streams: "Sequence[_Stream]") -> bytes:
    return encode_position(url, {each.name: each.cookie for each in streams})
