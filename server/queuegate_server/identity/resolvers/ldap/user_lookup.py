"""Looks up users, and lists all users."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate_server.identity.members import UserListing
from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.ldap.account_state import (
    USER_ACCOUNT_CONTROL,
    account_attributes,
    why_refused,
)
from queuegate_server.identity.resolvers.ldap.entries import (
    GroupKind,
    LdapEntry,
    SearchBase,
    decode_value,
)
from queuegate_server.identity.resolvers.ldap.filters import UserFilter
from queuegate_server.identity.resolvers.ldap.group_lookup import (
    GroupLookup,
    member_of_attributes,
    user_attributes,
)
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.name_search import NameSearch, ambiguous_name
from queuegate_server.identity.resolvers.ldap.pending import Allowance
from queuegate_server.identity.resolvers.ldap.schema import check_groups, check_user_filter
from queuegate_server.identity.resolvers.ldap.search import LimitExceeded, SearchSession
from queuegate_server.identity.unique_names import UniqueNames

_LOG = logging.getLogger("queuegate_server.identity.ldap")

MAX_NAMES: Final = 10_000
"""The maximum number of names that a followed user may have."""
_WARN_AFTER_USERS: Final = 20
_MAX_USER_ENTRIES: Final = 4
_NARROW: Final = "narrow user_base or user_filter"
_FEWER_GROUPS: Final = "check the user's entry; raise max_groups if that many groups are expected"
NO_MATCH: Final = NoSuchUser("no entry below user_base matches user_filter")
_OUTSIDE_BASE: Final = NoSuchUser("the directory has the user only outside user_base")
_OTHER_SPELLING: Final = NoSuchUser(
    "the directory spells the name differently; if only the case differs, "
    "user_match: casefold accepts it"
)


class UserKind:
    """The search base and filter for users."""

    def __init__(self, options: LdapOptions) -> None:
        self.filter = UserFilter(options.user_filter)
        self.base = SearchBase(options.user_base, options.user_scope)
        self._folds_case = options.user_match == "casefold"

    def names(self, entry: LdapEntry) -> tuple[str, ...]:
        """Return the names that requests may use for the user described by an entry."""

        def texts(attribute: str) -> Iterator[str]:
            return filter(None, map(decode_value, entry.values(attribute)))

        return self.filter.users(texts, fold=self._folds_case)

    def few_names(self, entry: LdapEntry) -> tuple[str, ...]:
        """Return the names as `names` does, in one short step.

        Raises UnusableData if the entry has more than `MAX_NAMES` values of an attribute.
        """
        for attribute in self.filter.attributes:
            if (count := len(entry.values(attribute))) > MAX_NAMES:
                raise UnusableData(
                    f"the entry {entry.dn!r:.200} has {count} values of {attribute}, but at most "
                    f"{MAX_NAMES} are allowed",
                    "remove some, or set changes_of_users: false",
                )
        return self.names(entry)

    def spelling(self, entry: LdapEntry, user: str) -> str | None:
        """Return a user's name as spelled in the entry; None if the entry is another user's.

        Raises UnusableData if the entry has no readable name.
        """
        fold = str.casefold if self._folds_case else str
        for attribute, expected in self.filter.expected(user):
            for value in entry.values(attribute):
                text = decode_value(value)
                if text is not None and fold(text) == fold(expected):
                    return user if text == expected else text
        self.check_names(entry)
        return None

    def has_names(self, entry: LdapEntry) -> bool:
        """Return whether the entry has a readable name in any form."""
        return any(map(entry.values, self.filter.attributes))

    def check_names(self, entry: LdapEntry) -> None:
        """Raise UnusableData if the entry has no readable name."""
        if not self.has_names(entry):
            raise UnusableData(
                f"the user's entry has no readable {' or '.join(self.filter.attributes)}",
                "grant the bind account read access",
            )


@dataclass(eq=False)
class UserLookup:
    """Looks up users."""

    options: LdapOptions
    statistics: LdapStatistics
    clock: Callable[[], float] = time.time
    """Returns the time, in Unix seconds."""

    def __post_init__(self) -> None:
        options = self.options
        self.users = UserKind(options)
        self.kinds = tuple(GroupKind(each, options.name_case) for each in options.group_kinds)
        self._unique = UniqueNames(ambiguous_name, time.monotonic)
        self._attributes = (*self.users.filter.attributes, *user_attributes(options))
        self._users_without = dict.fromkeys(_expected_attributes(options), 0)
        """For each attribute that users should have, the number of users without a value. An
        attribute is removed once a user has a value or the warning has been logged."""

    async def look_up(self, user: str, connection: LdapConnection) -> Outcome:
        """Look up a user. Raises LdapFault if the query fails or matches several entries."""
        filter_text = self.users.filter.for_user(user)
        allowance = Allowance(self.options.max_groups, _FEWER_GROUPS)
        with SearchSession(connection, allowance) as session:
            try:
                entries = await session.search_below(
                    "user search",
                    self.users.base,
                    filter_text,
                    self._attributes,
                    limit=_MAX_USER_ENTRIES,
                    advice=_NARROW,
                )
            except LimitExceeded:
                self.statistics.ambiguous += 1
                raise
            match = self._only_match(entries, user)
            if match is NO_MATCH:
                await check_user_filter(connection, self.options)
            if isinstance(match, NoSuchUser):
                return match
            entry, name = match
            self._note_missing_attributes(entry)
            refusal = why_refused(entry, self.options, self.clock())
            if refusal is not None:
                return refusal
            lookup = GroupLookup(session, self.kinds, self.statistics, entry, name)
            groups = await lookup.groups(user)
            if not groups:
                await check_groups(connection, self.options)
            if self.options.unique_group_names:
                await self._check_names(lookup.named, connection)
        return KnownUser(groups)

    async def _check_names(
        self, groups: Sequence[tuple[str, str]], connection: LdapConnection
    ) -> None:
        """Check that no other group has the same name as one of the user's groups. Raises
        LdapFault.
        """
        with SearchSession(
            connection, Allowance(self.options.max_groups, _FEWER_GROUPS)
        ) as session:
            search = NameSearch(session, self.kinds, groups)
            await self._unique.check(groups, search.keys_of)

    async def list_users(self, limit: int, connection: LdapConnection) -> UserListing:
        """Return all users who are not refused.

        Entries whose name or account state is unusable are missing, because lookups of these users
        fail. Raises LdapFault if all entries are unusable, or there are more than `limit`.
        """
        users = self.users
        attributes = (*users.filter.attributes, *account_attributes(self.options))
        now = self.clock()
        names: dict[str, None] = {}
        unusable: list[str] = []
        with SearchSession(
            connection, lambda: Allowance(limit, _NARROW, is_for_listing=True)
        ) as session:
            entries = await session.search_below(
                "user search",
                users.base,
                users.filter.for_anyone(),
                attributes,
                limit=limit,
                advice=_NARROW,
            )
            async for entry in session.in_steps(entries):
                if not users.base.contains_entry(entry.dn):
                    continue
                try:
                    refusal = why_refused(entry, self.options, now)
                    users.check_names(entry)
                except UnusableData as fault:
                    unusable.append(f"{entry.dn!r:.200}: {fault.text}")
                    continue
                if refusal is None:
                    names.update(dict.fromkeys(users.names(entry)))
        missing = ""
        if unusable:
            lacking = f"{len(unusable)}, whose lookups fail; the first is {unusable[0]}"
            if not names:
                raise UnusableData(f"the list of all users would be empty: it lacks {lacking}", "")
            missing = f"the list of all users lacks {lacking}"
        return UserListing([*names], missing)

    def _only_match(
        self, entries: Sequence[LdapEntry], user: str
    ) -> tuple[LdapEntry, str] | NoSuchUser:
        """Return the user's entry and its spelling of the name. Raises UnusableData if there are
        several.
        """
        inside = [entry for entry in entries if self._is_in_user_base(entry)]
        if entries and not inside:
            return _OUTSIDE_BASE
        matching = [(entry, name) for entry in inside if (name := self.users.spelling(entry, user))]
        if len(matching) > 1:
            self.statistics.ambiguous += 1
            raise UnusableData(f"{len(matching)} entries match the user", _NARROW)
        if inside and not matching:
            self.statistics.other_spelling += 1
            return _OTHER_SPELLING
        return matching[0] if matching else NO_MATCH

    def _is_in_user_base(self, entry: LdapEntry) -> bool:
        """Return whether an entry is below `user_base`. A faulty proxy may send other entries."""
        if self.users.base.contains_entry(entry.dn):
            return True
        self.statistics.note_outside(entry.dn, "user_base")
        return False

    def _note_missing_attributes(self, user: LdapEntry) -> None:
        """Warn once about each attribute that no user has, probably because it is unreadable."""
        for attribute, count in tuple(self._users_without.items()):
            if user.values(attribute) or user.value_range(attribute):
                del self._users_without[attribute]
            elif count + 1 < _WARN_AFTER_USERS:
                self._users_without[attribute] = count + 1
            else:
                del self._users_without[attribute]
                _LOG.warning(
                    "none of %d users has a value of %s; the bind account has no permission to "
                    "read it, or the server does not maintain it",
                    _WARN_AFTER_USERS,
                    attribute,
                )


def _expected_attributes(options: LdapOptions) -> tuple[str, ...]:
    """Return the attributes that at least one user has, if the bind account may read them."""
    attributes = member_of_attributes(options)
    if options.preset == "active_directory" and options.disabled_users == "refuse":
        attributes += (USER_ACCOUNT_CONTROL,)
    return attributes
