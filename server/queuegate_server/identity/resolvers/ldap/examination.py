"""Examines a lookup for `source-check`: its outcome, with notes on what may be misconfigured.

The notes are about ignored memberships, unreadable attributes, domain parts and groups of the same
name; the warnings, about accounts that keep groups although they may be disabled.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.account_state import account_attributes
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.entries import (
    GroupDn,
    GroupKind,
    LdapEntry,
    decode_value,
)
from queuegate_server.identity.resolvers.ldap.filters import member_filters
from queuegate_server.identity.resolvers.ldap.group_lookup import member_of_attributes
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    LdapFault,
    NoSuchEntry,
    ServerFault,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import (
    IMPOSSIBLE_NAME,
    THREADS,
    is_possible_name,
)
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.name_search import NameSearch, examples
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.rights_notes import RightsNotes
from queuegate_server.identity.resolvers.ldap.search import LimitExceeded, SearchSession
from queuegate_server.identity.resolvers.ldap.timed_steps import LdapStep, StepObserver
from queuegate_server.identity.resolvers.ldap.user_lookup import NO_MATCH, UserLookup
from queuegate_server.runtime.threads import AbandonableThreadPool

_MAX_ENTRIES: Final = 100
"""The maximum number of entries that a note's search for users may find."""
_MAX_TEXT_CHARS: Final = 200
"""The maximum length of a DN or a group's name in a note."""


class Examination(NamedTuple):
    """The outcome of a lookup, and possible misconfigurations in human-readable form."""

    outcome: Outcome
    warnings: Sequence[str] = ()
    """Why users may have groups that they should not have."""
    notes: Sequence[str] = ()
    """Everything else."""


async def examine(
    url: ServerUrl,
    user: str,
    options: LdapOptions,
    statistics: LdapStatistics,
    observe: StepObserver,
) -> Examination:
    """Look up a user on the given server through a new connection.

    Args:
        url: The server.
        user: The user's name.
        options: The settings.
        statistics: Counts what is unusual about entries.
        observe: Called with each step of connecting and of the lookup, but not with the searches
            for notes and warnings, which other lookups do not make.

    Raises:
        LdapFault: A query of the lookup fails, or the lookup exceeds `lookup_timeout`.
    """
    if not is_possible_name(user):
        return Examination(IMPOSSIBLE_NAME)
    threads = AbandonableThreadPool(THREADS, "ldap")
    lookup = UserLookup(options, statistics)
    seconds = options.lookup_timeout
    try:
        connection = await Connector(options, threads, observe).connect(url)
        try:
            async with asyncio.timeout(seconds):
                outcome = await lookup.look_up(user, connection)
            connection.observe = _ignore_step
            examiner = _Examiner(connection, lookup)
            warnings = await examiner.warnings(user, outcome)
            return Examination(outcome, warnings, await examiner.notes(user, outcome))
        finally:
            connection.close()
    except TimeoutError:
        raise ServerFault(
            f"the lookup took longer than {seconds:g} s (lookup_timeout)",
            "find out why the directory is slow, or raise lookup_timeout; a server with these "
            "settings would also fail",
        ) from None
    finally:
        threads.close()


def _ignore_step(_step: LdapStep) -> None:
    pass


@dataclass(eq=False)
class _Examiner:
    """Collects notes and warnings by running additional searches on the lookup's connection."""

    connection: LdapConnection
    lookup: UserLookup

    def __post_init__(self) -> None:
        # The notes may be about as many groups as a lookup may find.
        self._max_groups = self.connection.options.max_groups
        entries = max(_MAX_ENTRIES, self._max_groups)
        self._session = SearchSession(self.connection, lambda: Allowance(entries))
        self._rights = RightsNotes(self._session, self.lookup)

    async def warnings(self, user: str, outcome: Outcome) -> list[str]:
        """Return why the user may have groups that they should not have, omitting what could not be
        searched.
        """
        is_known = isinstance(outcome, KnownUser)
        return await self._gathered([self._account(user)] if is_known else [])

    async def notes(self, user: str, outcome: Outcome) -> list[str]:
        """Return notes on a lookup's outcome, omitting notes whose searches failed."""
        if isinstance(outcome, NoSuchUser):
            sources = [self._without_domain(user)]
            if outcome == NO_MATCH:
                sources.append(self._rights.about_name(user))
        elif isinstance(outcome, KnownUser):
            sources = [
                self._outside_base(user),
                self._missing_attributes(),
                self._same_names(outcome.groups),
                *self._rights_sources(user),
            ]
        else:
            sources = []
        return await self._gathered(sources)

    async def _gathered(self, sources: Iterable[AsyncIterator[str]]) -> list[str]:
        notes: list[str] = []
        for source in sources:
            with contextlib.suppress(LdapFault, TimeoutError), self._session:
                async with asyncio.timeout(self._session.options.lookup_timeout):
                    async for note in source:
                        notes.append(note)  # noqa: PERF401 - keeps those before a fault
        return notes

    async def _without_domain(self, user: str) -> AsyncIterator[str]:
        """Yield a note if the name has a domain part, saying whether the directory has the rest."""
        name = user.rpartition("\\")[2].partition("@")[0]
        short_name = name.partition("/")[0]
        names = [each for each in dict.fromkeys((name, short_name)) if each not in {"", user}]
        for each in names:
            if isinstance(await self.lookup.look_up(each, self.connection), KnownUser):
                hadoop = "" if each == name else ", which is Hadoop's short name"
                yield (
                    f"the directory has the user {each!r}{hadoop}: let callers send the name "
                    "without its domain part, or compare another attribute in user_filter, such as "
                    "userPrincipalName for names like user@domain"
                )
                return
        if names:
            attributes = " or ".join(self.lookup.users.filter.attributes)
            yield (
                f"the name has a domain part, and values of {attributes} usually have none; "
                f"{' and '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} not in the "
                "directory either"
            )

    async def _outside_base(self, user: str) -> AsyncIterator[str]:
        """Yield notes on memberships that are ignored because the groups are outside group_base."""
        statistics = self.lookup.statistics
        if statistics.ignored_memberships:
            yield _outside(statistics.ignored_memberships, statistics.ignored_example)
        searched = [kind for kind in self.lookup.kinds if kind.options.groups_from != "member_of"]
        if not searched:
            return
        dns = [entry.dn for entry in await self._user_entries(user, ("1.1",))]
        root = await self._session.read("root entry", "", ["namingContexts"])
        values = root.values("namingContexts") if root else []
        contexts = [*filter(None, map(decode_value, values))]
        found: list[tuple[GroupDn, str]] = []
        for kind in searched:
            members = [user] if kind.options.groups_from == "member_uid" else dns
            for context in contexts:
                found += await self._groups_with(kind, members, context)
        # Kinds of groups have different bases: a group outside one base may be inside another.
        inside = {group.key for group, _ in found if group.is_below_base}
        ignored = {group.key: dn for group, dn in found if group.key not in inside}
        if ignored:
            yield _outside(len(ignored), next(iter(ignored.values())))

    async def _groups_with(
        self, kind: GroupKind, members: Sequence[str], base: str
    ) -> list[tuple[GroupDn, str]]:
        """Return the groups below a base that list any of the members, each with its DN."""
        lists = "".join(member_filters(kind.options.member_attribute, members))
        groups = await self._session.search(
            "group search",
            base,
            f"(&{kind.options.group_filter}(|{lists}))",
            ("1.1",),
            limit=self._max_groups,
        )
        parsed = ((kind.parse(group.dn), group.dn) for group in groups)
        return [(group, dn) for group, dn in parsed if group]

    async def _account(self, user: str) -> AsyncIterator[str]:
        """Yield the reasons why the user's account may be disabled without the lookup knowing."""
        wanted = account_attributes(self._session.options)
        if wanted:
            async for warning in self._rights.about_account(await self._entry(user, wanted)):
                yield warning

    async def _user_entries(self, user: str, attributes: Sequence[str]) -> list[LdapEntry]:
        """Return the entries that `user_filter` matches for the user."""
        users = self.lookup.users
        return await self._session.search_below(
            "user search",
            users.base,
            users.filter.for_user(user),
            attributes,
            limit=_MAX_ENTRIES,
            advice="",
        )

    async def _entry(self, user: str, attributes: Iterable[str] = ()) -> LdapEntry:
        """Return the user's entry, with its names and the given attributes.

        Raises NoSuchEntry if the entry has changed since the lookup, which found exactly one.
        """
        users = self.lookup.users
        entries = await self._user_entries(user, (*users.filter.attributes, *attributes))
        matching = [
            entry
            for entry in entries
            if users.base.contains_entry(entry.dn) and users.spelling(entry, user)
        ]
        if len(matching) != 1:
            raise NoSuchEntry(f"{len(matching)} entries match the user since the lookup")
        return matching[0]

    def _rights_sources(self, user: str) -> Iterator[AsyncIterator[str]]:
        """Return a separate source for each note, so that a failed search costs only its own
        note.
        """
        kinds = self.lookup.kinds
        searched = [kind for kind in kinds if kind.options.groups_from != "member_of"]
        for kind in searched:
            yield self._about_listing(user, kind, self._rights.about_groups)
        for kind in kinds:
            if kind.options.groups_from != "member_uid" and kind.options.group_base is not None:
                yield self._about_member_of(user, kind)
        # Last, because these read members, which may be too many for the connection.
        for kind in searched:
            yield self._about_listing(user, kind, self._rights.about_lists)

    async def _about_listing(
        self,
        user: str,
        kind: GroupKind,
        about: Callable[[GroupKind, str], AsyncIterator[str]],
    ) -> AsyncIterator[str]:
        """Yield the notes that `about` returns for the groups that list the user, by name or by
        DN.
        """
        by_name = kind.options.groups_from == "member_uid"
        async for note in about(kind, user if by_name else (await self._entry(user)).dn):
            yield note

    async def _about_member_of(self, user: str, kind: GroupKind) -> AsyncIterator[str]:
        entry = await self._entry(user, [kind.options.member_of_attribute])
        async for note in self._rights.about_member_of(kind, entry):
            yield note

    async def _missing_attributes(self) -> AsyncIterator[str]:
        """Yield a note for each kind of memberOf that no entry has."""
        for attribute in member_of_attributes(self._session.options):
            try:
                entries = await self._session.search_below(
                    "user search",
                    self.lookup.users.base,
                    f"({attribute}=*)",
                    ("1.1",),
                    limit=1,
                    advice="",
                )
            except LimitExceeded:
                continue
            if not entries:
                yield (
                    f"no entry below user_base has a value of {attribute}: the server does not "
                    "maintain it (OpenLDAP needs the memberof overlay, which lists only groups "
                    "that were written after it was enabled), or the bind account has no "
                    "permission to read it; groups_from: member_dn searches the groups instead"
                )

    async def _same_names(self, groups: Collection[str]) -> AsyncIterator[str]:
        """Yield a note for each name that several groups share."""
        kinds = [kind.options for kind in self.lookup.kinds]
        if any(kind.group_base is None or kind.group_name_from == "rdn" for kind in kinds):
            return
        found = await NameSearch(self._session, self.lookup.kinds).dns_of(groups)
        for name, dns in found.items():
            if len(dns) > 1:
                yield (
                    f"{len(dns)} groups have the name {name[:_MAX_TEXT_CHARS]!r} and count as one, "
                    f"such as {examples(dns)}: rename all but one of them, or set "
                    "unique_group_names: true, so that lookups of their members fail"
                )


def _outside(count: int, example: str) -> str:
    groups = "1 membership is" if count == 1 else f"{count} memberships are"
    return (
        f"{groups} outside group_base and ignored, such as {example[:_MAX_TEXT_CHARS]!r}: "
        "set group_base to a DN above both, or add such groups with more_groups"
    )
