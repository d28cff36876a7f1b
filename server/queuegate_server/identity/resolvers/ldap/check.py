"""Every server of a directory tried out, one after the other, for the administrator."""

from typing import NamedTuple

from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.binding import Connector
from queuegate_server.identity.resolvers.ldap.errors import LdapFault
from queuegate_server.identity.resolvers.ldap.group_lookup import Strategy
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, Statistics, Step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Session
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl, parse_url
from queuegate_server.identity.resolvers.ldap.users import Users, is_possible_name
from queuegate_server.runtime.threads import AbandonableThreadPool

_THREADS = 2


class ServerCheck(NamedTuple):
    """What came of a look-up at one server."""

    url: ServerUrl
    outcome: Outcome
    notes: tuple[str, ...]
    """What a look-up would not say and an administrator wants to know."""


class Check:
    """A look-up that goes to each server and leaves nothing open. Raises no LdapFault."""

    def __init__(self, options: LdapOptions, observe: Observer) -> None:
        """Take who is told of every step."""
        self._options = options
        self._observe = observe
        self._threads = AbandonableThreadPool(_THREADS, "ldap-check")

    async def servers(self) -> tuple[ServerUrl, ...]:
        """Return the servers of the options, or those that DNS names. Raises LdapFault."""
        domain = self._options.discover
        if domain is None:
            return tuple(map(parse_url, self._options.urls))
        # Only those who use it need the DNS library.
        from queuegate_server.identity.resolvers.ldap.discovery import (  # noqa: PLC0415 - as said
            discovered,
        )

        return await discovered(
            domain,
            encrypted=not self._options.start_tls,
            seconds=self._options.connect_timeout,
        )

    async def look_up(self, url: ServerUrl, user: str) -> ServerCheck:
        """Look a user up at one server, on a connection of its own."""
        statistics = Statistics()
        advised: set[str] = set()

        def observe(taken: Step) -> None:
            advised.add(taken.advice)
            self._observe(taken)

        if not is_possible_name(user):
            return ServerCheck(url, NoSuchUser("no user can have this name"), ())
        try:
            outcome = await self._look_up(url, user, statistics, observe)
        except LdapFault as fault:
            advice = f" ({fault.advice})" if fault.advice and fault.advice not in advised else ""
            outcome = CouldNotAsk(f"{fault.detail}{advice}")
        return ServerCheck(url, outcome, tuple(_notes(statistics)))

    async def _look_up(
        self, url: ServerUrl, user: str, statistics: Statistics, observe: Observer
    ) -> Outcome:
        options = self._options
        connection = await Connector(options, self._threads, observe).connect(url)
        try:
            session = Session(connection, options, observe)
            strategy = Strategy(options, statistics)
            found = await Users(options, statistics).find(session, user, strategy.user_attributes)
            if found is None:
                return NoSuchUser(f"no entry below {options.user_base} is this user's")
            return Found(await strategy.groups(session, found, user))
        finally:
            connection.close()


def _notes(statistics: Statistics) -> list[str]:
    notes: list[str] = []
    if statistics.other_spelling:
        notes.append(
            "there is an entry whose name is spelled otherwise; if it differs in case only, "
            "user_match: casefold takes it"
        )
    if statistics.skipped_names:
        notes.append(f"{statistics.skipped_names} groups have no name that can be read")
    if statistics.depth_reached:
        notes.append("groups are nested deeper than nested_depth: those above are left out")
    return notes
