"""Looks up users in a directory: chooses a server, and retries. Requires the driver."""

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from queuegate_server.identity.members import CannotListUsers, MemberListing, UserListing
from queuegate_server.identity.resolver import (
    CannotFollow,
    ChangeSink,
    LookupFailure,
    NoSuchUser,
    Outcome,
)
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.dirsync_follower import DirSyncFollower
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.errors import (
    LdapFault,
    ServerFault,
    TooManyRequests,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics, StepObserver
from queuegate_server.identity.resolvers.ldap.member_lookup import MemberLookup
from queuegate_server.identity.resolvers.ldap.notes import Notes
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.sync_follower import SyncFollower
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup
from queuegate_server.runtime.threads import AbandonableThreadPool

T = TypeVar("T")

_THREADS: Final = 4
_MAX_NAME_CHARS: Final = 256
_IMPOSSIBLE_NAME: Final = NoSuchUser("no user can have this name", source_asked=False)


class Examination(NamedTuple):
    """The outcome of a lookup, and possible misconfigurations in human-readable form."""

    outcome: Outcome
    warnings: Sequence[str] = ()
    """Why users may have groups in error."""
    notes: Sequence[str] = ()
    """Everything else."""


class Directory:
    """A directory, queried through a pool of servers.

    Steps are passed to `observe` if given; otherwise, they are counted in `statistics`.
    """

    def __init__(
        self, options: LdapOptions, statistics: LdapStatistics, observe: StepObserver | None = None
    ) -> None:
        self._options = options
        self._statistics = statistics
        self._threads = AbandonableThreadPool(_THREADS, "ldap")
        self._connector = Connector(options, self._threads, observe or statistics.count)
        self.pool = ServerPool(self._connector)
        self._lookup = UserLookup(options, statistics)

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        if not _is_possible_name(user):
            return _IMPOSSIBLE_NAME
        try:
            return await self._on_connection(partial(self._lookup.look_up, user))
        except LdapFault as fault:
            return LookupFailure(
                fault.text,
                too_many=isinstance(fault, TooManyRequests),
                source_works=isinstance(fault, UnusableData),
            )

    async def members(self, listing: MemberListing) -> None:
        """List group members. Raises ListingLimit."""
        try:
            await self._on_connection(partial(self._list_members, listing))
        except LdapFault as fault:
            listing.give_up(fault.text)

    async def follow(self, sink: ChangeSink) -> None:
        """Follow the changes of the directory until cancelled. Raises CannotFollow."""
        try:
            follower = DirSyncFollower if self._options.changes == "dirsync" else SyncFollower
            await follower(self._options, self.pool, self._lookup, sink, self._on_connection).run()
        except LdapFault as fault:
            raise CannotFollow(fault.text) from None

    async def all_users(self, limit: int) -> UserListing:
        """Return all users. Raises CannotListUsers if there are more than `limit`."""
        try:
            return await self._on_connection(partial(self._lookup.list_users, limit))
        except LdapFault as fault:
            raise CannotListUsers(fault.text) from None

    async def examine(self, url: ServerUrl, user: str) -> Examination:
        """Look up a user on the given server through a new connection.

        Raises LdapFault if a query fails or the lookup exceeds `lookup_timeout`.
        """
        if not _is_possible_name(user):
            return Examination(_IMPOSSIBLE_NAME)
        connection = await self._connector.connect(url)
        seconds = self._options.lookup_timeout
        try:
            async with asyncio.timeout(seconds):
                outcome = await self._lookup.look_up(user, connection)
            notes = Notes(connection, self._lookup)
            warnings = await notes.warnings(user, outcome)
            return Examination(outcome, warnings, await notes.about(user, outcome))
        except TimeoutError:
            raise ServerFault(
                f"the lookup took longer than {seconds:g} s (lookup_timeout)",
                "find out why the directory is slow, or raise lookup_timeout; a server with these "
                "settings would also fail",
            ) from None
        finally:
            connection.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()
        self._threads.close()

    async def _on_connection(self, work: Callable[[LdapConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection. If the server fails, retry once, preferably elsewhere."""
        server, connection = await self.pool.connection()
        try:
            outcome = await work(connection)
        except ServerFault as fault:
            server.note_failure(connection, fault)
            self._statistics.retried += 1
            try:
                server, connection = await self.pool.connection(avoid=server)
            except LdapFault:
                raise fault from None
            try:
                outcome = await work(connection)
            except ServerFault as again:
                server.note_failure(connection, again)
                raise
        server.note_success()
        return outcome

    async def _list_members(self, listing: MemberListing, connection: LdapConnection) -> None:
        with SearchSession(
            connection, lambda: Allowance(listing.room, is_for_listing=True)
        ) as session:
            await MemberLookup(session, self._lookup.kinds, self._lookup.users, listing).run()


def _is_possible_name(user: str) -> bool:
    return (
        0 < len(user) <= _MAX_NAME_CHARS
        # Reject control characters, lone surrogates and unassigned code points.
        and not any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in user)
    )
