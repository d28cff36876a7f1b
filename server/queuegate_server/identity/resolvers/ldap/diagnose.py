"""A look-up at every server of a directory, for `queuegate-server ldap-check`."""

from typing import Final, NamedTuple

from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.discovery import discover_servers
from queuegate_server.identity.resolvers.ldap.errors import LdapFault
from queuegate_server.identity.resolvers.ldap.group_lookup import GroupLookup
from queuegate_server.identity.resolvers.ldap.instrumentation import (
    LdapStatistics,
    LdapStep,
    StepObserver,
)
from queuegate_server.identity.resolvers.ldap.options import LdapOptions, ServerUrl, parse_url
from queuegate_server.identity.resolvers.ldap.search import SearchSession
from queuegate_server.identity.resolvers.ldap.users import UserSearch, is_possible_name
from queuegate_server.runtime.threads import AbandonableThreadPool

_THREADS: Final = 2


class Diagnosis(NamedTuple):
    """The result of a look-up at one server."""

    outcome: Outcome
    notes: tuple[str, ...]
    """What a look-up would only count."""


async def servers_of(options: LdapOptions) -> tuple[ServerUrl, ...]:
    """Return the servers in the options, or those that DNS names. Raises LdapFault."""
    if options.discover is None:
        return tuple(map(parse_url, options.urls))
    return await discover_servers(
        options.discover, encrypted=not options.start_tls, timeout=options.connect_timeout
    )


async def diagnose(
    url: ServerUrl, user: str, options: LdapOptions, observe: StepObserver
) -> Diagnosis:
    """Look a user up at one server, on a connection of its own.

    Args:
        url: The server.
        user: The user's name.
        options: The settings; their servers are not used.
        observe: Receives every step.
    """
    if not is_possible_name(user):
        return Diagnosis(NoSuchUser("no user can have this name"), ())
    statistics = LdapStatistics()
    shown_advice: set[str] = set()

    def note(step: LdapStep) -> None:
        shown_advice.add(step.advice)
        observe(step)

    try:
        outcome = await _look_up(url, user, options, statistics, note)
    except LdapFault as fault:
        outcome = CouldNotAsk(fault.detail if fault.advice in shown_advice else fault.text)
    return Diagnosis(outcome, tuple(_notes(statistics)))


async def _look_up(
    url: ServerUrl,
    user: str,
    options: LdapOptions,
    statistics: LdapStatistics,
    observe: StepObserver,
) -> Outcome:
    threads = AbandonableThreadPool(_THREADS, "ldap-check")
    connection = await Connector(options, threads, observe).connect(url)
    try:
        session = SearchSession(connection, options, observe)
        lookup = GroupLookup(options, statistics)
        users = UserSearch(options, statistics)
        found = await users.find(session, user, lookup.user_attributes)
        if found is None:
            return NoSuchUser(f"no entry below {options.user_base} is this user's")
        return Found(await lookup.groups(session, found, user))
    finally:
        connection.close()
        threads.close()


def _notes(statistics: LdapStatistics) -> list[str]:
    notes: list[str] = []
    if statistics.other_spelling:
        notes.append(
            "an entry has a name of another spelling; if only its case differs, "
            "user_match: casefold accepts it"
        )
    if statistics.skipped_names:
        notes.append(f"{statistics.skipped_names} groups have no readable name")
    if statistics.depth_reached:
        notes.append("groups are nested deeper than nested_depth: those above are left out")
    return notes
