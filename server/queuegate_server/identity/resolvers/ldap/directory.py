"""Look-ups in a directory: which server, whose entry, which groups, and what may be repeated.

This module and those below it import the driver.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.binding import Connector
from queuegate_server.identity.resolvers.ldap.connection import Connection
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.group_lookup import Strategy
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, Statistics
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Session
from queuegate_server.identity.resolvers.ldap.servers import Servers
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl, parse_url
from queuegate_server.identity.resolvers.ldap.users import Users, is_possible_name
from queuegate_server.runtime.threads import AbandonableThreadPool

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_THREADS: Final = 4
_DISCOVER_EVERY_SECONDS: Final = 300.0
_HINT_AFTER: Final = 20
_NO_SUCH_USER: Final = NoSuchUser("the directory has no such user")
_NOT_A_NAME: Final = NoSuchUser("no user can have this name")


class Directory:
    """A directory that is open. Used from one event loop."""

    def __init__(self, options: LdapOptions, statistics: Statistics, observe: Observer) -> None:
        self._options = options
        self._statistics = statistics
        self._observe = observe
        self._threads = AbandonableThreadPool(_THREADS, "ldap")
        self._users = Users(options, statistics)
        self._strategy = Strategy(options, statistics)
        self._connector = Connector(options, self._threads, observe)
        self._urls: Sequence[ServerUrl] = ()
        self._servers: Servers | None = None
        self._discovery: asyncio.Task[None] | None = None
        self._discovery_fault: LdapFault = ServerFault("DNS has not named the servers yet")
        self._without_groups = 0
        self._hinted = False

    async def open(self) -> None:
        """Begin to connect; does not wait for it."""
        if self._options.discover:
            self._discovery = asyncio.create_task(self._discover(self._options.discover))
        else:
            await self._use([parse_url(url) for url in self._options.urls])

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        if not is_possible_name(user):
            return _NOT_A_NAME
        try:
            return await self._resolve(user)
        except LdapFault as fault:
            advice = f" ({fault.advice})" if fault.advice else ""
            return CouldNotAsk(f"{fault.detail}{advice}")

    async def close(self) -> None:
        """Close all connections."""
        if self._discovery is not None:
            self._discovery.cancel()
            await asyncio.gather(self._discovery, return_exceptions=True)
        if self._servers is not None:
            await self._servers.close()
        self._threads.close()

    async def _resolve(self, user: str) -> Outcome:
        """Look up a user, and once again on another connection if a server fails."""
        servers = self._servers
        if servers is None:
            raise self._discovery_fault
        server, connection = await servers.connection()
        try:
            outcome = await self._ask(connection, user)
        except ServerFault as fault:
            server.failed(connection, fault)
            self._statistics.retried += 1
            try:
                # DNS may have named other servers meanwhile.
                servers = self._servers or servers
                server, connection = await servers.connection(avoid=server)
            except LdapFault:
                raise fault from None
            try:
                outcome = await self._ask(connection, user)
            except ServerFault as again:
                server.failed(connection, again)
                raise
        server.succeeded()
        return outcome

    async def _ask(self, connection: Connection, user: str) -> Outcome:
        with connection.in_use():
            return await self._ask_for(user, Session(connection, self._options, self._observe))

    async def _ask_for(self, user: str, session: Session) -> Outcome:
        found = await self._users.find(session, user, self._strategy.user_attributes)
        if found is None:
            return _NO_SUCH_USER
        groups = await self._strategy.groups(session, found, user)
        if self._options.groups_from == "member_of" and self._options.nested != "in_chain":
            self._hint(bool(found.entry.values(self._options.member_of_attribute)) or bool(groups))
        return Found(groups)

    def _hint(self, has_groups: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        """Say once that nobody at all has the attribute: it is most likely not readable."""
        if has_groups:
            self._hinted = True
        self._without_groups += not has_groups
        if not self._hinted and self._without_groups >= _HINT_AFTER:
            self._hinted = True
            _LOG.warning(
                "none of %d users has a value of %s; the bind account may not read it, or the "
                "server does not maintain it",
                self._without_groups,
                self._options.member_of_attribute,
            )

    async def _use(self, urls: Sequence[ServerUrl]) -> None:
        old, self._servers = self._servers, Servers(urls, self._options, self._connector)
        self._urls = urls
        self._servers.start()
        if old is not None:
            await old.close()

    async def _discover(self, domain: str) -> None:
        # Only those who use it need the DNS library.
        from queuegate_server.identity.resolvers.ldap.discovery import (  # noqa: PLC0415 - as said
            discovered,
        )

        while True:
            pause = _DISCOVER_EVERY_SECONDS
            try:
                urls = await discovered(
                    domain,
                    encrypted=not self._options.start_tls,
                    seconds=self._options.connect_timeout,
                )
                if urls and set(urls) != set(self._urls):
                    await self._use(urls)
            except LdapFault as fault:
                _LOG.warning("%s", fault.detail)
                self._discovery_fault = fault
                if self._servers is None:
                    pause = self._options.retry_after
            await asyncio.sleep(pause)
