"""Maps user names to the provider's names, and checks group names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from cachetools import LRUCache
from yarl import URL

from queuegate_server.identity.resolver import NoSuchUser
from queuegate_server.identity.rest.answers import is_name
from queuegate_server.identity.rest.faults import RequestFault, UnusableAnswer
from queuegate_server.identity.rest.provider_options import RestOptions

MAX_USER_CHARS: Final = 256
"""No provider has longer user names."""
MAX_FORMER_USERS: Final = 100_000
MAX_FORMER_NAMES: Final = 4
"""The maximum number of names per user that are remembered."""
_NAMES_PER_SEARCH: Final = 10
"""Microsoft Graph takes at most 15 values for the `in` operator."""
_BYTES_PER_SEARCH: Final = 1000

DISABLED: Final = NoSuchUser("the user's account is disabled", is_final=True)
ABSENT: Final = NoSuchUser("the provider has no such user")
WITHOUT_SUFFIX: Final = NoSuchUser(
    "the provider's user names contain an @, but this one does not: set user_suffix, such as "
    '"@example.com"',
    source_asked=False,
)
IMPOSSIBLE: Final = NoSuchUser("no user of the provider can have this name", source_asked=False)


def segment(text: str) -> str:
    """Encode a string as one path segment. Raises RequestFault for `.` and `..`.

    Dots cannot be encoded: servers treat %2E like a dot (RFC 3986, 6.2.2.2).
    """
    if text in {"", ".", ".."}:
        raise RequestFault("a name or id is not usable in an address")
    return quote(text, safe="")


def address(path: str, query: Mapping[str, str]) -> URL:
    """Return an address, given a path that is already encoded and parameters that are not."""
    parts = "&".join(
        f"{quote(key, safe='$')}={quote(value, safe='')}" for key, value in query.items()
    )
    return URL(f"{path}?{parts}", encoded=True)


def requested_name(user: str, options: RestOptions) -> str | NoSuchUser:
    """Return the provider's name for a user, or NoSuchUser if it cannot be one."""
    if not is_name(user) or len(user) > MAX_USER_CHARS or user in {".", ".."}:
        return IMPOSSIBLE
    return user + options.user_suffix


def is_same(found: str, requested: str, options: RestOptions) -> bool:
    """Return whether the provider's name is the requested name."""
    if options.user_match == "casefold":
        return found.casefold() == requested.casefold()
    return found == requested


def other_spelling(found: str, requested: str) -> NoSuchUser:
    """Return the outcome if the provider has found a user with another name.

    Args:
        found: The provider's name for the user.
        requested: The name that was requested.
    """
    known, asked = found.casefold(), requested.casefold()
    if known == asked:
        advice = " (user_match: casefold accepts it)"
    elif known.startswith(f"{asked}@"):
        advice = ': it ends with an @ and a domain (set user_suffix, such as "@example.com")'
    else:
        advice = ""
    return NoSuchUser(f"the provider spells the name differently{advice}")


def listed_name(found: str, options: RestOptions) -> str | None:
    """Return the name by which callers know a user; None if there is none."""
    suffix = options.user_suffix
    given = found[-len(suffix) :] if suffix else ""
    if not is_same(given, suffix, options):
        return None
    name = found.removesuffix(given) if suffix else found
    return name if isinstance(requested_name(name, options), str) else None


def spelled(names: Iterable[str], options: RestOptions) -> tuple[str, ...]:
    """Return group names in the form that the settings require, without duplicates. Raises
    RequestFault.
    """
    lower = options.name_case == "lower"
    result = dict.fromkeys(name.lower() if lower else name for name in names)
    for name in result:
        if not is_name(name):
            raise UnusableAnswer(
                f"groups: the name {name[:200]!r} contains control characters", "rename the group"
            )
    if len(result) > options.max_groups:
        raise too_many_groups(options)
    return tuple(result)


def too_many_groups(options: RestOptions) -> UnusableAnswer:
    """Return the fault for a user with more than `max_groups` groups."""
    return UnusableAnswer(f"the user has more than {options.max_groups} groups", "raise max_groups")


def batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Split names into batches that fit into one search. A long name gets its own batch."""
    batch: list[str] = []
    size = 0
    for name in names:
        added = len(name.encode())
        if batch and (len(batch) >= _NAMES_PER_SEARCH or size + added > _BYTES_PER_SEARCH):
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += added
    if batch:
        yield batch


class FormerNames:
    """The names by which users were looked up, by their ids, so that the old name of a renamed user
    is known.
    """

    def __init__(self, options: RestOptions) -> None:
        self._options = options
        self._names: LRUCache[str, tuple[str, ...]] = LRUCache(MAX_FORMER_USERS)

    def note(self, key: str, name: str) -> None:
        """Record the provider's name under which a user is about to be looked up."""
        if not self._options.follows:
            return
        name = name.removesuffix(self._options.user_suffix)
        names = self._names.get(key, ())
        if name not in names:
            self._names[key] = (*names, name)[-MAX_FORMER_NAMES:]

    def of(self, key: str) -> tuple[str, ...]:
        """Return the names by which callers have known a user."""
        return self._names.get(key, ())


def ambiguous_name(name: str) -> UnusableAnswer:
    """Return the fault for a name that does not identify a single group."""
    return UnusableAnswer(
        f"several groups have the name {name[:200]!r}, or it has just changed",
        "rename one of them, or use another group_name in the settings",
    )
