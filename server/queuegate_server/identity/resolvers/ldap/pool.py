"""Connects to a directory's servers in the background, with failover and failback."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.discovery import (
    ServerUrl,
    discover_servers,
    parse_url,
)
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    BadCredentials,
    LdapFault,
    ServerFault,
)
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.runtime.pauses import directory_server

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.identity.ldap")

MAX_AGE_SECONDS: Final = 900.0
"""How long a connection is used before it is replaced, minus up to 10%, so that the bind account's
rights and the servers' addresses are up to date. A replacement costs one bind."""
IDLE_SECONDS: Final = 300.0
"""How long an unused connection to a server other than the first is kept."""
KEEPALIVE_SECONDS: Final = 30.0
"""How long a connection may be silent before it is tested: less time than firewalls take to forget
it."""
RETRY_SECONDS: Final = 1.0
"""How long to avoid a server after a failure."""
FAIL_BACK_SECONDS: Final = 30.0
"""The maximum pause after repeated failures while another server is available, and thus how long
the other server may be used after this server has recovered.
"""
REJECTED_SECONDS: Final = 60.0
"""The pause after rejected credentials, unless the password changes: repeated binds would lock the
account."""
_MAX_FAILED_REQUESTS: Final = 3
"""The number of consecutive failed lookups after which a connected server is avoided."""
_POLL_PASSWORD_SECONDS: Final = 1.0
_DISCOVER_EVERY_SECONDS: Final = 300.0


class ServerPool:
    """A directory's servers, in order of preference."""

    def __init__(self, connector: Connector, statistics: LdapStatistics) -> None:
        self.options = connector.options
        self.connector = connector
        self._statistics = statistics
        self.servers: tuple[ServerConnection, ...] = ()
        self._discovery: asyncio.Task[None] | None = None
        self._discovery_fault: LdapFault = ServerFault("DNS has not returned the servers yet")

    async def open(self) -> None:
        """Start connecting, without waiting for a connection."""
        if self.options.discover:
            self._discovery = asyncio.create_task(self._discover(self.options.discover))
        else:
            await self.use([parse_url(url) for url in self.options.urls])

    async def run(self, work: Callable[[LdapConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection; return its result. Raises LdapFault.

        If the server fails, calls it once more, preferably with a connection to another server.
        """
        server, connection = await self.connection()
        try:
            result = await work(connection)
        except ServerFault as fault:
            server.note_failure(connection, fault)
            self._statistics.retried += 1
            try:
                server, connection = await self.connection(avoid=server)
            except LdapFault:
                raise fault from None
            try:
                result = await work(connection)
            except ServerFault as again:
                server.note_failure(connection, again)
                raise
        server.note_success()
        return result

    async def connection(
        self, avoid: "ServerConnection | None" = None
    ) -> tuple["ServerConnection", LdapConnection]:
        """Return a server, preferably not `avoid`, and its open connection. Raises LdapFault."""
        if not self.servers:
            raise self._discovery_fault
        faults: list[str] = []
        advice = ""
        for server in sorted(self.servers, key=lambda server: server is avoid):
            try:
                return server, await server.connection()
            except LdapFault as fault:
                faults.append(f"{server.url}: {fault.detail}")
                advice = advice or fault.advice
        raise ServerFault("no directory server answers: " + "; ".join(faults), advice)

    async def use(self, urls: Sequence[ServerUrl]) -> None:
        """Replace all servers, and close the connections to the previous servers."""
        old = self.servers
        self.servers = tuple(
            ServerConnection(url, self, is_preferred=position == 0)
            for position, url in enumerate(urls)
        )
        for server in self.servers:
            server.start()
        for server in old:
            await server.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._discovery is not None:
            self._discovery.cancel()
            await asyncio.gather(self._discovery, return_exceptions=True)
        for server in self.servers:
            await server.close()

    async def _discover(self, domain: str) -> None:
        """Look up the servers repeatedly, at shorter intervals while none is known."""
        while True:
            pause = _DISCOVER_EVERY_SECONDS
            try:
                urls = await discover_servers(
                    domain,
                    encrypted=not self.options.start_tls,
                    timeout=self.options.connect_timeout,
                )
                if set(urls) != {server.url for server in self.servers}:
                    await self.use(urls)
            except LdapFault as fault:
                _LOG.warning("%s", fault.detail)
                self._discovery_fault = fault
                if not self.servers:
                    pause = RETRY_SECONDS
            await asyncio.sleep(pause)


class ServerConnection:
    """The connection to one server. A background task opens, tests and replaces it.

    The connection to the preferred server is always kept open. Connections to other servers are
    kept open only while needed.
    """

    def __init__(self, url: ServerUrl, pool: ServerPool, *, is_preferred: bool) -> None:
        self.url = url
        self._pool = pool
        self._options = pool.options
        self._connector = pool.connector
        self._is_preferred = is_preferred
        self._connection: LdapConnection | None = None
        self._fault: LdapFault | None = None
        """The reason why the server is avoided, if any."""
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._last_lost: LdapConnection | None = None
        self._failed_requests = 0
        self._failed_attempts = 0
        self._keeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_connected(self) -> bool:
        """Whether there is an open connection."""
        return self._connection is not None and self._connection.lost is None

    def start(self) -> None:
        """Start the background task. It connects immediately if the server is preferred."""
        self._keeper = asyncio.create_task(self._keep(), name=f"ldap {self.url}")
        if self._is_preferred:
            self._wanted.set()

    async def connection(self) -> LdapConnection:
        """Return a recently tested connection. Raises LdapFault.

        Waits until the connection is open. If the server has failed, raises its fault immediately.
        """
        self._wanted.set()
        while True:
            if self._fault is not None:
                raise self._fault
            connection = self._connection
            if connection is not None and connection.lost is None:
                silent = time.monotonic() - connection.heard_at
                if silent > 2 * KEEPALIVE_SECONDS:
                    # The regular test is overdue, probably because the process was suspended or the
                    # machine migrated. Test the connection now.
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

    def note_success(self) -> None:
        """Record a successful lookup."""
        self._failed_requests = 0

    def note_failure(self, connection: LdapConnection, fault: LdapFault) -> None:
        """Record a failed lookup. All failures due to one lost connection count as one."""
        if connection.lost is not None:
            if connection is self._last_lost:
                return
            self._last_lost = connection
        self._failed_requests += 1
        if self._failed_requests >= _MAX_FAILED_REQUESTS:
            self._fault = fault
            self._changed.set()
            if self._connection is not None:
                self._connection.close(fault.detail)

    async def close(self) -> None:
        """Close all connections and stop all tasks."""
        tasks = [task for task in (self._keeper, *self._closing) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fault = ServerFault("the resolver is closed")
        self._changed.set()
        if self._connection is not None:
            self._connection.close()

    async def _keep(self) -> None:
        """Keep a connection to the server while one is wanted, and pause after each failure."""
        while True:
            await self._wanted.wait()
            previous_fault = self._fault
            if previous_fault is not None:
                await self._pause(previous_fault)
            try:
                connection = await self._connector.connect(self.url)
                await self._use(connection, previous_fault)
            except LdapFault as fault:
                self._note_failed_attempt(fault)
            except Exception as error:
                _LOG.exception("connecting to %s failed", self.url)
                self._note_failed_attempt(ServerFault(f"connecting failed: {type(error).__name__}"))

    def _note_failed_attempt(self, fault: LdapFault) -> None:
        if self._fault is None or self._fault.detail != fault.detail:
            _LOG.warning("directory server %s failed: %s", self.url, fault.detail)
        self._failed_attempts += 1
        self._fault = fault
        if self._connection is not None:
            self._connection.close(fault.detail)
            self._connection = None
        self._changed.set()

    async def _use(self, connection: LdapConnection, previous_fault: LdapFault | None) -> None:
        """Use a new connection until it is lost or too many lookups in a row have failed."""
        if self._fault is not None and self._fault is not previous_fault:
            connection.close("the server failed")
            return
        if self._fault is not None:
            _LOG.warning("directory server %s answers again", self.url)
        self._fault = None
        self._failed_attempts = 0
        self._connection = connection
        self._changed.set()
        await self._watch(connection)

    async def _pause(self, fault: LdapFault) -> None:
        """Wait before reconnecting to a failed server; back off if another server is connected."""
        if isinstance(fault, BadCredentials):
            await self._wait_for_password()
            return
        # This server is not connected, so any connected server is a different one.
        is_replaced = any(server.is_connected for server in self._pool.servers)
        most = FAIL_BACK_SECONDS if is_replaced else RETRY_SECONDS
        await asyncio.sleep(directory_server(RETRY_SECONDS, most).after(self._failed_attempts))

    async def _wait_for_password(self) -> None:
        """Wait until the password changes, but no longer than `REJECTED_SECONDS`."""
        try:
            rejected = await self._connector.password()
        except LdapFault:
            rejected = b""
        end = time.monotonic() + REJECTED_SECONDS
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _POLL_PASSWORD_SECONDS))
            with contextlib.suppress(LdapFault):
                if await self._connector.password() != rejected:
                    return

    async def _watch(self, connection: LdapConnection) -> None:
        """Watch a connection until it is closed: test it when silent, replace it when old."""
        spread = random.uniform(0.9, 1)  # noqa: S311 - no secret
        expires_at = connection.opened_at + MAX_AGE_SECONDS * spread
        while connection.lost is None:
            now = time.monotonic()
            silent_at = connection.heard_at + KEEPALIVE_SECONDS
            idle_at = connection.used_at + IDLE_SECONDS
            wake_at = min(expires_at, silent_at, *(() if self._is_preferred else (idle_at,)))
            if await _wait_for(connection.ended, max(wake_at - now, 0.001)):
                break
            now = time.monotonic()
            if not self._is_preferred and now >= idle_at and connection.quiet.is_set():
                self._wanted.clear()
                self._connection = None
                connection.close("idle")
                return
            if now >= expires_at:
                expires_at = now + await self._replace(connection)
                connection = self._connection or connection
            elif now >= connection.heard_at + KEEPALIVE_SECONDS:
                with contextlib.suppress(LdapFault):
                    await connection.verify()
        if not self._is_preferred and not self._waiting:
            # Reconnect only when another lookup needs the server.
            self._wanted.clear()
        if self._connection is connection:
            self._connection = None

    async def _replace(self, old: LdapConnection) -> float:
        """Try to replace a connection; return the seconds until the next replacement or retry."""
        try:
            new = await self._connector.connect(self.url)
        except LdapFault as fault:
            _LOG.warning(
                "directory server %s: the connection was not renewed: %s", self.url, fault.detail
            )
            return RETRY_SECONDS
        self._connection = new
        task = asyncio.create_task(self._close_when_quiet(old))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return MAX_AGE_SECONDS

    async def _close_when_quiet(self, connection: LdapConnection) -> None:
        await _wait_for(connection.quiet, self._options.lookup_timeout)
        connection.close("replaced")


async def _wait_for(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False
