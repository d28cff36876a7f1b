"""Look-ups in an open directory: choosing the server, and repeating what a server failed.

This module and those that it imports need the driver.
"""

import logging
from typing import Final

from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.group_lookup import GroupLookup, user_attributes
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics, StepObserver
from queuegate_server.identity.resolvers.ldap.names import GroupDns
from queuegate_server.identity.resolvers.ldap.options import LdapOptions, ServerUrl
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.users import UserSearch, is_possible_name
from queuegate_server.runtime.threads import AbandonableThreadPool

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_THREADS: Final = 4
_WARN_AFTER_USERS: Final = 20
_NO_SUCH_USER: Final = NoSuchUser("the directory has no such user")
_IMPOSSIBLE_NAME: Final = NoSuchUser("no user can have this name")


class Directory:
    """An open directory."""

    def __init__(
        self,
        options: LdapOptions,
        statistics: LdapStatistics,
        observe: StepObserver | None = None,
    ) -> None:
        """Create it closed; every step is reported to `observe`, or else counted."""
        self._options = options
        self._statistics = statistics
        self._threads = AbandonableThreadPool(_THREADS, "ldap")
        self._users = UserSearch(options, statistics)
        self._dns = GroupDns(options)
        self._observe = observe or statistics.count
        self._connector = Connector(options, self._threads, self._observe)
        self.pool = ServerPool(options, self._connector)
        self._users_without_groups = 0
        self._member_of_is_settled = False

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        if not is_possible_name(user):
            return _IMPOSSIBLE_NAME
        try:
            return await self._resolve(user)
        except LdapFault as fault:
            return CouldNotAsk(fault.text)

    async def resolve_at(self, url: ServerUrl, user: str) -> Outcome:
        """Look up one user at one server, on a connection of its own. Raises LdapFault."""
        if not is_possible_name(user):
            return _IMPOSSIBLE_NAME
        connection = await self._connector.connect(url)
        try:
            return await self._look_up(connection, user)
        finally:
            connection.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()
        self._threads.close()

    async def _resolve(self, user: str) -> Outcome:
        """Look up a user, and once again on another connection if the server fails."""
        server, connection = await self.pool.connection()
        try:
            outcome = await self._look_up(connection, user)
        except ServerFault as fault:
            server.note_failure(connection, fault)
            self._statistics.retried += 1
            try:
                server, connection = await self.pool.connection(avoid=server)
            except LdapFault:
                raise fault from None
            try:
                outcome = await self._look_up(connection, user)
            except ServerFault as again:
                server.note_failure(connection, again)
                raise
        server.note_success()
        return outcome

    async def _look_up(self, connection: LdapConnection, user: str) -> Outcome:
        options = self._options
        with connection.in_use():
            session = SearchSession(connection, options, self._observe)
            found = await self._users.find(session, user, user_attributes(options))
            if found is None:
                return _NO_SUCH_USER
            lookup = GroupLookup(options, self._statistics, self._dns, session, found)
            groups = await lookup.groups(user)
        if options.groups_from == "member_of" and options.nested != "in_chain":
            values = found.entry.values(options.member_of_attribute)
            self._note_member_of(present=bool(values or groups))
        return Found(groups)

    def _note_member_of(self, *, present: bool) -> None:
        """Warn once if no user at all has the attribute: most likely it is not readable."""
        if self._member_of_is_settled:
            return
        self._users_without_groups += not present
        self._member_of_is_settled = present or self._users_without_groups >= _WARN_AFTER_USERS
        if self._member_of_is_settled and not present:
            _LOG.warning(
                "none of %d users has a value of %s; the bind account may not read it, or the "
                "server does not maintain it",
                self._users_without_groups,
                self._options.member_of_attribute,
            )
