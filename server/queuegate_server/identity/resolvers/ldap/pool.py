"""One server, whose connection is made, tried out and replaced in the background."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from queuegate_server.identity.resolvers.ldap.connection import Connection
from queuegate_server.identity.resolvers.ldap.errors import BindRefused, LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_FAILURES: Final = 3
"""So many failed requests in a row, and the server is left alone though it accepts us."""
_JITTER: Final = 0.2
_LOOK_AT_PASSWORD_SECONDS: Final = 1.0


class Server:
    """A server with at most one connection in use. Used from one event loop."""

    def __init__(
        self,
        url: ServerUrl,
        options: LdapOptions,
        connect: Callable[[ServerUrl], Awaitable[Connection]],
        password: Callable[[], Awaitable[bytes]],
        *,
        is_first: bool,
        others_answer: Callable[["Server"], bool],
    ) -> None:
        """Take how to connect, and whether another server answers meanwhile.

        The first server always keeps a connection; others only while they are needed.
        """
        self.url = url
        self._options = options
        self._connect = connect
        self._password = password
        self._is_first = is_first
        self._others_answer = others_answer
        self._connection: Connection | None = None
        self._fault: LdapFault | None = None
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._last_lost: Connection | None = None
        self._failed_requests = 0
        self._failed_attempts = 0
        self._keeper: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def answers(self) -> bool:
        """True if there is a connection."""
        return self._connection is not None and self._connection.lost is None

    @property
    def fault(self) -> LdapFault | None:
        """Why the server is left alone, if it is."""
        return None if self.answers else self._fault

    def start(self) -> None:
        """Begin to connect, if this is the first server."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name=f"ldap {self.url}")
        if self._is_first:
            self._wanted.set()

    async def connection(self) -> Connection:
        """Return a connection that is known to have answered lately. Raises LdapFault.

        Waits while the first attempt to connect runs, but not for a server that failed.
        """
        self._wanted.set()
        while True:
            if self._fault is not None:
                raise self._fault
            connection = self._connection
            if connection is not None and connection.lost is None:
                silent = time.monotonic() - connection.heard
                if silent > 2 * self._options.keepalive_interval:
                    # The process slept, or the machine was moved.
                    with contextlib.suppress(LdapFault):
                        await connection.verify()
                if connection.lost is None:
                    return connection
                continue
            self._waiting += 1
            try:
                self._changed.clear()
                await self._changed.wait()
            finally:
                self._waiting -= 1

    def succeeded(self) -> None:
        """Note that the server answered a look-up."""
        self._failed_requests = 0

    def failed(self, connection: Connection, fault: LdapFault) -> None:
        """Note that the server failed a look-up on a connection.

        All look-ups that went down with one connection are one failure.
        """
        if connection.lost is not None:
            if connection is self._last_lost:
                return
            self._last_lost = connection
        self._failed_requests += 1
        if self._failed_requests >= _FAILURES:
            self._fault = fault
            self._changed.set()
            if self._connection is not None:
                self._connection.close(fault.detail)

    async def close(self) -> None:
        """End everything."""
        tasks = [task for task in (self._keeper, *self._leaving) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fault = ServerFault("the resolver is closed")
        self._changed.set()
        if self._connection is not None:
            self._connection.close()

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            known = self._fault
            if known is not None:
                await self._pause(known)
            try:
                connection = await self._connect(self.url)
            except LdapFault as fault:
                self._note_failure(fault)
                continue
            except Exception as error:
                _LOG.exception("connecting to %s failed", self.url)
                self._note_failure(ServerFault(f"connecting failed: {type(error).__name__}"))
                continue
            if self._fault is not None and self._fault is not known:
                # Meanwhile it was decided to leave the server alone.
                connection.close("left alone")
                continue
            self._use(connection)
            await self._watch(connection)

    def _note_failure(self, fault: LdapFault) -> None:
        if self._fault is None or self._fault.detail != fault.detail:
            _LOG.warning("directory server %s fails: %s", self.url, fault.detail)
        self._failed_attempts += 1
        self._fault = fault
        self._connection = None
        self._changed.set()

    def _use(self, connection: Connection) -> None:
        if self._fault is not None:
            _LOG.warning("directory server %s answers again", self.url)
        self._fault = None
        self._failed_attempts = 0
        self._connection = connection
        self._changed.set()

    async def _pause(self, fault: LdapFault) -> None:
        """Leave a server that failed alone: longer each time while another one answers."""
        options = self._options
        if isinstance(fault, BindRefused):
            await self._until_password_changes(options.auth_retry_after)
            return
        seconds = options.retry_after
        if self._others_answer(self):
            doubled = options.retry_after * 2.0 ** min(self._failed_attempts - 1, 20)
            seconds = min(doubled, options.fail_back_after)
        spread = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
        await asyncio.sleep(seconds * spread)

    async def _until_password_changes(self, seconds: float) -> None:
        try:
            known = await self._password()
        except LdapFault:
            known = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK_AT_PASSWORD_SECONDS))
            with contextlib.suppress(LdapFault):
                if await self._password() != known:
                    return

    async def _watch(self, connection: Connection) -> None:
        """Look after a connection until a new one is to be made."""
        options = self._options
        spread = random.uniform(0.9, 1)  # noqa: S311 - no secret
        expires = connection.opened + options.max_age * spread
        while connection.lost is None:
            now = time.monotonic()
            silent_until = connection.heard + options.keepalive_interval
            idle_until = connection.used + options.idle_timeout
            wake = min(expires, silent_until, *(() if self._is_first else (idle_until,)))
            if not await _ended_within(connection, max(wake - now, 0.001)):
                now = time.monotonic()
                if not self._is_first and now >= idle_until and connection.quiet.is_set():
                    self._wanted.clear()
                    self._drop(connection)
                    return
                if now >= expires:
                    expires = now + await self._replace(connection)
                    connection = self._connection or connection
                elif now >= connection.heard + options.keepalive_interval:
                    with contextlib.suppress(LdapFault):
                        await connection.verify()
        if not self._is_first and not self._waiting:
            # A look-up that went down with the connection may wait for the next one by now.
            self._wanted.clear()
        if self._connection is connection:
            self._connection = None

    async def _replace(self, old: Connection) -> float:
        """Connect anew before an old connection goes; return when to look again."""
        options = self._options
        try:
            new = await self._connect(self.url)
        except LdapFault as fault:
            _LOG.warning("directory server %s: no new connection: %s", self.url, fault.detail)
            return options.retry_after
        self._connection = new
        task = asyncio.create_task(self._leave(old))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return options.max_age

    async def _leave(self, connection: Connection) -> None:
        """Close a connection once its last look-up is done."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.lookup_timeout):
                await connection.quiet.wait()
        connection.close("replaced")

    def _drop(self, connection: Connection) -> None:
        self._connection = None
        connection.close("not used any more")


async def _ended_within(connection: Connection, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await connection.ended.wait()
    except TimeoutError:
        return False
    return True
