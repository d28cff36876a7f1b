"""Finding the entry of a user, and making sure that it belongs to that user."""

import unicodedata
from typing import Final, NamedTuple

import ldap

from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.filters import UserFilter
from queuegate_server.identity.resolvers.ldap.instrumentation import LdapStatistics
from queuegate_server.identity.resolvers.ldap.names import decode_value
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import LdapEntry, LimitExceeded, SearchSession

_MAX_NAME_CHARS: Final = 256
_MAX_ENTRIES: Final = 4
_NARROW: Final = "narrow user_base or user_filter"


class UserEntry(NamedTuple):
    """The entry of a user."""

    entry: LdapEntry
    name: str
    """The name as the entry spells it."""


class UserSearch:
    """Finds users; the options state where, and how names must match."""

    def __init__(self, options: LdapOptions, statistics: LdapStatistics) -> None:
        self._options = options
        self._statistics = statistics
        self._filter = UserFilter(options.user_filter)
        self._scope = ldap.SCOPE_SUBTREE if options.user_scope == "sub" else ldap.SCOPE_ONELEVEL

    async def find(
        self, session: SearchSession, user: str, attributes: tuple[str, ...]
    ) -> UserEntry | None:
        """Return the entry of a user with these attributes; None if there is none.

        Raises LdapFault, also if two entries match the user.
        """
        try:
            found = await session.search(
                "user search",
                self._options.user_base,
                self._filter.for_user(user),
                (*self._filter.attributes, *attributes),
                limit=_MAX_ENTRIES,
                scope=self._scope,
                advice=_NARROW,
            )
        except LimitExceeded:
            self._statistics.ambiguous += 1
            raise
        matching = [match for entry in found if (match := self._match(entry, user)) is not None]
        if len(matching) > 1:
            self._statistics.ambiguous += 1
            raise SetupFault(f"{len(matching)} entries match the user", _NARROW)
        if found and not matching:
            self._statistics.other_spelling += 1
        return matching[0] if matching else None

    def _match(self, entry: LdapEntry, user: str) -> UserEntry | None:
        """Return the entry with its spelling of the name if it is the user's."""
        fold = str.casefold if self._options.user_match == "casefold" else str
        readable = False
        for attribute, expected in self._filter.expected(user):
            for value in entry.values(attribute):
                readable = True
                text = decode_value(value)
                if text is not None and fold(text) == fold(expected):
                    return UserEntry(entry, user if text == expected else text)
        if readable:
            return None
        names = " or ".join(self._filter.attributes)
        raise SetupFault(
            f"the user's entry shows no {names} to compare the name with",
            "let the bind account read it",
        )


def is_possible_name(user: str) -> bool:
    """Return whether a text can be the name of a user at all."""
    return (
        0 < len(user) <= _MAX_NAME_CHARS
        # Control characters, lone surrogates, and unassigned code points.
        and not any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in user)
    )
