"""Selects the groups for the user info annotation, and remembers which groups each user had. Pure.

The scheduler uses the annotation's groups for ACLs, limits and placement filters, so other groups
would only make objects larger. YuniKorn's `ConvertUGI` (`pkg/common/security/usergroup.go`) rejects
the whole user because of a single group name that is invalid in limits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import is_group_name
from queuegate.policy.tree import Partition
from queuegate_server.formats.yunikorn import go_regexp
from queuegate_server.formats.yunikorn.placement import MAX_PATTERN

_MAX_LISTS: Final = 4
"""The maximum number of group lists remembered for a user."""
MAX_USERS: Final = 10_000
"""The maximum number of users whose groups are remembered."""


class Selection(NamedTuple):
    """The groups for an annotation."""

    groups: tuple[str, ...]
    """The groups to write, in their original order and without duplicates."""
    refused: tuple[str, ...]
    """The groups that the policy lists but YuniKorn's parser would reject."""


class UsableGroups:
    """The groups on which a partition's ACLs, limits and placement filters depend."""

    def __init__(self, partition: Partition) -> None:
        """Collect the groups. Takes 0.1 s for 100,000 queues, so call this in a thread.

        Args:
            partition: The partition that the scheduler uses.
        """
        texts = {text for queue in partition.queues.values() for text in queue.acl_texts}
        names = {name for text in texts for name in text.partition(" ")[2].split(",")}
        self._names = (names | partition.groups_outside_acls) - {"", WILDCARD}
        self._patterns = [_compiled(pattern) for pattern in partition.group_patterns]

    def select(self, groups: Iterable[str]) -> Selection:
        """Return the groups that the policy can use.

        Args:
            groups: A user's groups, primary group first.
        """
        usable = [name for name in dict.fromkeys(groups) if self._is_usable(name)]
        return Selection(
            tuple(name for name in usable if is_group_name(name)),
            tuple(name for name in usable if not is_group_name(name)),
        )

    def _is_usable(self, name: str) -> bool:
        return name in self._names or any(
            pattern is None or pattern.search(name) for pattern in self._patterns
        )


def _compiled(pattern: str) -> Any:
    """Return a compiled pattern, or None for an unchecked pattern, which any group may match."""
    return None if len(pattern) > MAX_PATTERN else go_regexp.compile_pattern(pattern)


class RecentGroups:
    """The groups that a limited number of users had within the lifetime of cached groups."""

    def __init__(self, clock: Callable[[], float], max_users: int = MAX_USERS) -> None:
        """Create an empty store.

        Args:
            clock: A monotonic clock in seconds.
            max_users: The maximum number of users. At the limit, the user who was added least
                recently is removed.
        """
        self._clock = clock
        self._max_users = max_users
        self._users: OrderedDict[str, dict[tuple[str, ...], float]] = OrderedDict()

    def add(self, user: str, groups: tuple[str, ...], seconds: float) -> None:
        """Remember a user's groups.

        Args:
            user: The user's name.
            groups: All groups to accept in the user's annotations.
            seconds: How long to remember them.
        """
        now = self._clock()
        sets = self._users.setdefault(user, {})
        self._users.move_to_end(user)
        for expired in [each for each, until in sets.items() if until <= now]:
            del sets[expired]
        sets.pop(groups, None)
        sets[groups] = now + seconds
        if len(sets) > _MAX_LISTS:
            del sets[next(iter(sets))]
        if len(self._users) > self._max_users:
            self._users.popitem(last=False)

    def find(self, user: str) -> frozenset[tuple[str, ...]] | None:
        """Return the lists of groups that a user had recently; None if there are none."""
        now = self._clock()
        lists = self._users.get(user, {}).items()
        return frozenset(groups for groups, until in lists if now < until) or None
