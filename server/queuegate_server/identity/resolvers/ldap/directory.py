"""Lookups in an open directory: the server that is asked, the user's entry, and the groups.

This module and those that it imports need the driver.
"""

import asyncio
import logging
import unicodedata
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.resolver import Found, LookupFailed, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.allowance import Allowance
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault, SetupFault
from queuegate_server.identity.resolvers.ldap.group_kind import GroupKind, decode_value
from queuegate_server.identity.resolvers.ldap.group_lookup import (
    GroupLookup,
    member_of_attributes,
    user_attributes,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics, StepObserver
from queuegate_server.identity.resolvers.ldap.member_lookup import MemberLookup
from queuegate_server.identity.resolvers.ldap.notes import Notes
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.pool import ServerPool
from queuegate_server.identity.resolvers.ldap.schema import check_groups, check_user_filter
from queuegate_server.identity.resolvers.ldap.search import LdapEntry, LimitExceeded, SearchSession
from queuegate_server.identity.resolvers.ldap.user_search import UserSearch
from queuegate_server.runtime.threads import AbandonableThreadPool

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_THREADS: Final = 4
_WARN_AFTER_USERS: Final = 20
_MAX_NAME_CHARS: Final = 256
_MAX_USER_ENTRIES: Final = 4
_NARROW: Final = "narrow user_base or user_filter"
_FEWER_GROUPS: Final = "check the user's entry; raise max_groups if that many groups are expected"
_NO_SUCH_USER: Final = NoSuchUser("no entry below user_base matches user_filter")
_OUTSIDE_BASE: Final = NoSuchUser("the directory has the user only outside user_base")
_OTHER_SPELLING: Final = NoSuchUser(
    "the directory has the name in another spelling; if only its case differs, "
    "user_match: casefold accepts it"
)
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
        self._users = UserSearch(options)
        self._user_attributes = (*self._users.filter.attributes, *user_attributes(options))
        self._kinds = tuple(
            GroupKind(each, lower_case=options.name_case == "lower") for each in options.group_kinds
        )
        self._connector = Connector(options, self._threads, observe or statistics.count)
        self.pool = ServerPool(options, self._connector)
        self._users_without = dict.fromkeys(member_of_attributes(options), 0)
        """How many users had no value of an attribute that lists groups. An attribute is removed
        once a user has a value, or after the warning."""

    async def resolve(self, user: str) -> Outcome:
        """Look up one user."""
        if not _is_possible_name(user):
            return _IMPOSSIBLE_NAME
        try:
            return await self._on_connection(lambda connection: self._look_up(connection, user))
        except LdapFault as fault:
            return LookupFailed(fault.text)

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups. Raises ListingLimit."""
        try:
            await self._on_connection(lambda connection: self._list_members(connection, listing))
        except LdapFault as fault:
            listing.give_up(fault.text)

    async def all_users(self, limit: int) -> list[str]:
        """Return the names of all users below `user_base` that `user_filter` finds.

        Raises CannotListUsers.
        """
        try:
            return await self._on_connection(lambda connection: self._list_users(connection, limit))
        except LdapFault as fault:
            raise CannotListUsers(fault.text) from None

    async def examine(self, url: ServerUrl, user: str) -> tuple[Outcome, list[str]]:
        """Look up one user at one server, on a connection of its own, and within the time that a
        server has for it.

        Returns:
            The outcome, and notes for people on what may not be as they meant it.

        Raises:
            LdapFault: The server could not be asked.
        """
        if not _is_possible_name(user):
            return _IMPOSSIBLE_NAME, []
        connection = await self._connector.connect(url)
        seconds = self._options.lookup_timeout
        try:
            async with asyncio.timeout(seconds):
                outcome = await self._look_up(connection, user)
            notes = Notes(connection, self._users, self._kinds, self._statistics)
            return outcome, await notes.about(user, outcome, self._look_up)
        except TimeoutError:
            raise ServerFault(
                f"the lookup took longer than {seconds:g} s (lookup_timeout)",
                "find out why the directory is slow, or raise lookup_timeout; a server with these "
                "settings fails as well",
            ) from None
        finally:
            connection.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()
        self._threads.close()

    async def _on_connection(self, work: Callable[[LdapConnection], Awaitable[T]]) -> T:
        """Do work, and once again on another connection if the server fails."""
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

    async def _look_up(self, connection: LdapConnection, user: str) -> Outcome:
        allowance = Allowance(self._options.max_groups, _FEWER_GROUPS)
        with connection.in_use():
            session = SearchSession(connection, lambda: allowance)
            found = await self._find_user(session, user)
            if found is _NO_SUCH_USER:
                await check_user_filter(connection, self._options)
            if isinstance(found, NoSuchUser):
                return found
            entry, name = found
            lookup = GroupLookup(session, self._kinds, self._statistics, entry, name)
            groups = await lookup.groups(user)
            if not groups:
                await check_groups(connection, self._options)
        self._note_missing_attributes(entry)
        return Found(groups)

    async def _list_members(self, connection: LdapConnection, listing: MemberListing) -> None:
        with connection.in_use():
            session = SearchSession(
                connection, lambda: Allowance(listing.room, is_for_listing=True)
            )
            lookup = MemberLookup(session, self._kinds, self._users, listing)
            await lookup.run()

    async def _list_users(self, connection: LdapConnection, limit: int) -> list[str]:
        users = self._users
        session = SearchSession(connection, lambda: Allowance(limit, _NARROW, is_for_listing=True))
        names: dict[str, None] = {}
        with connection.in_use():
            entries = await users.search(
                session,
                "user search",
                users.filter.for_anyone(),
                users.filter.attributes,
                limit=limit,
                advice=_NARROW,
            )
            async with session.slices() as slices:
                for entry in entries:
                    await slices.pause_when_due()
                    if users.base.contains_entry(entry.dn):
                        names.update(dict.fromkeys(self._names_of(entry)))
        return [*names]

    def _names_of(self, entry: LdapEntry) -> tuple[str, ...]:
        """Return the names of a user. Raises SetupFault if the entry shows none."""
        attributes = self._users.filter.attributes
        if not any(map(entry.values, attributes)):
            raise SetupFault(
                f"the entry {entry.dn!r:.200} has no readable {' or '.join(attributes)}",
                "let the bind account read it",
            )
        return self._users.names(entry)

    async def _find_user(
        self, session: SearchSession, user: str
    ) -> tuple[LdapEntry, str] | NoSuchUser:
        """Return the entry of a user, and the name as the entry spells it.

        Raises LdapFault, also if two entries match the user.
        """
        try:
            found = await self._users.search(
                session,
                "user search",
                self._users.filter.for_user(user),
                self._user_attributes,
                limit=_MAX_USER_ENTRIES,
                advice=_NARROW,
            )
        except LimitExceeded:
            self._statistics.ambiguous += 1
            raise
        inside = [entry for entry in found if self._is_in_user_base(entry)]
        if found and not inside:
            return _OUTSIDE_BASE
        matching = [(entry, name) for entry in inside if (name := self._matching_name(entry, user))]
        if len(matching) > 1:
            self._statistics.ambiguous += 1
            raise SetupFault(f"{len(matching)} entries match the user", _NARROW)
        if inside and not matching:
            self._statistics.other_spelling += 1
            return _OTHER_SPELLING
        return matching[0] if matching else _NO_SUCH_USER

    def _is_in_user_base(self, entry: LdapEntry) -> bool:
        """Return whether the search could find the entry: a proxy's rewriting can go wrong."""
        if self._users.base.contains_entry(entry.dn):
            return True
        self._statistics.note_outside(entry.dn, "user_base")
        return False

    def _matching_name(self, entry: LdapEntry, user: str) -> str | None:
        """Return the user's name as an entry spells it; None if the entry is not the user's."""
        fold = str.casefold if self._options.user_match == "casefold" else str
        readable = False
        for attribute, expected in self._users.filter.expected(user):
            for value in entry.values(attribute):
                readable = True
                text = decode_value(value)
                if text is not None and fold(text) == fold(expected):
                    return user if text == expected else text
        if readable:
            return None
        names = " or ".join(self._users.filter.attributes)
        raise SetupFault(
            f"the user's entry has no readable {names} to compare the name with",
            "let the bind account read it",
        )

    def _note_missing_attributes(self, user: LdapEntry) -> None:
        """Warn once of each attribute that no user at all has: most likely it is not readable."""
        for attribute, count in tuple(self._users_without.items()):
            if user.values(attribute) or user.part(attribute):
                del self._users_without[attribute]
            elif count + 1 < _WARN_AFTER_USERS:
                self._users_without[attribute] = count + 1
            else:
                del self._users_without[attribute]
                _LOG.warning(
                    "none of %d users has a value of %s; the bind account may not read it, or the "
                    "server does not maintain it",
                    _WARN_AFTER_USERS,
                    attribute,
                )


def _is_possible_name(user: str) -> bool:
    """Return whether a text can be the name of a user at all."""
    return (
        0 < len(user) <= _MAX_NAME_CHARS
        # Control characters, lone surrogates, and unassigned code points.
        and not any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in user)
    )
