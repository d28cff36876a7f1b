"""Finding the entry of a user, and making sure that it is the user's."""

import unicodedata
from typing import Final, NamedTuple

from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.filters import UserFilter
from queuegate_server.identity.resolvers.ldap.instrumentation import Statistics
from queuegate_server.identity.resolvers.ldap.names import text_of
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import (
    ONE_LEVEL,
    SUBTREE,
    Entry,
    Session,
    TooMany,
)

_LONGEST_NAME: Final = 256
_MOST_ENTRIES: Final = 4
_NARROW: Final = "narrow user_base or user_filter"


class FoundUser(NamedTuple):
    """A user's entry."""

    entry: Entry
    name: str
    """The name as the entry spells it."""


class Users:
    """Finds users. The options say where, and how names must agree."""

    def __init__(self, options: LdapOptions, statistics: Statistics) -> None:
        self._options = options
        self._statistics = statistics
        self._filter = UserFilter(options.user_filter)
        self._scope = SUBTREE if options.user_scope == "sub" else ONE_LEVEL

    async def find(
        self, session: Session, user: str, attributes: tuple[str, ...]
    ) -> FoundUser | None:
        """Return the entry of a user with these attributes; None if it is not there.

        Raises LdapFault, also if two entries are this user.
        """
        wanted = (*self._filter.attributes, *attributes)
        try:
            found = await session.search(
                "user search",
                self._options.user_base,
                self._filter.for_user(user),
                wanted,
                most=_MOST_ENTRIES,
                scope=self._scope,
                advice=_NARROW,
            )
        except TooMany:
            self._statistics.ambiguous += 1
            raise
        theirs = [own for entry in found if (own := self._own(entry, user)) is not None]
        if len(theirs) > 1:
            self._statistics.ambiguous += 1
            raise SetupFault(f"{len(theirs)} entries match the user", _NARROW)
        if found and not theirs:
            self._statistics.other_spelling += 1
        return theirs[0] if theirs else None

    def _own(self, entry: Entry, user: str) -> FoundUser | None:
        """Return the entry with its spelling of the name if it is the user's, else None."""
        readable = False
        for attribute, expected in self._filter.expected(user):
            for value in entry.values(attribute):
                readable = True
                text = text_of(value)
                if text is not None and self._same(text, expected):
                    return FoundUser(entry, user if text == expected else text)
        if not readable:
            names = " or ".join(self._filter.attributes)
            raise SetupFault(
                f"the user's entry shows no {names} to compare the name with",
                "let the bind account read it",
            )
        return None

    def _same(self, name: str, expected: str) -> bool:
        if self._options.user_match == "casefold":
            return name.casefold() == expected.casefold()
        return name == expected


def is_possible_name(user: str) -> bool:
    """Say whether a text can be the name of a user at all."""
    return (
        0 < len(user) <= _LONGEST_NAME
        # Control characters, lone surrogates, and code points that are no characters.
        and not any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in user)
    )
