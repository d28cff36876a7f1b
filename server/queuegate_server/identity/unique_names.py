"""Checks that each group name identifies a single group."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

from cachetools import TTLCache

UNIQUE_SECONDS: Final = 60.0
"""How long a group name that was found to be unique counts as unique."""
MAX_UNIQUE_NAMES: Final = 20_000
_NAMES_AT_ONCE: Final = 100
"""The maximum number of names to search for at once. A lookup that times out has checked some
names, so the next one gets further."""


class UniqueNames:
    """Checks that each of a user's group names identifies a single group. If anyone can create a
    group with another group's name, the name must not grant what was meant for the other group. The
    check of a name is valid for `UNIQUE_SECONDS`, but only for the same group.

    Args:
        fault: Returns the exception to raise for a name that is not unique.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, fault: Callable[[str], Exception], clock: Callable[[], float]) -> None:
        self._fault = fault
        self._known: TTLCache[str, str] = TTLCache(MAX_UNIQUE_NAMES, UNIQUE_SECONDS, clock)

    async def check(
        self,
        groups: Iterable[tuple[str, str]],
        find: Callable[[Collection[str]], Awaitable[Mapping[str, Collection[str]]]],
    ) -> None:
        """Check pairs of a name and the identity of the group. Raises `fault`.

        `find` returns the identities of all groups with each of the given names.
        """
        wanted: dict[str, str] = {}
        for name, identity in groups:
            if wanted.setdefault(name, identity) != identity:
                raise self._fault(name)
        unknown = [name for name, group in wanted.items() if self._known.get(name) != group]
        for start in range(0, len(unknown), _NAMES_AT_ONCE):
            names = unknown[start : start + _NAMES_AT_ONCE]
            found = await find(names)
            for name in names:
                if set(found.get(name, ())) != {wanted[name]}:
                    raise self._fault(name)
                self._known[name] = wanted[name]
