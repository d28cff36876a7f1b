"""What decides about queues that are asked for often, one look-up instead of one a level.

`decide.walk` looks at each level of a chain. For a queue that was asked for before, the names
of all its levels are put into one table. Tables are made of a policy that never changes, when
they are first of use, so that they neither take time at its load nor grow with it.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from queuegate.policy.decision import Decision
    from queuegate.policy.queue import Chain

_MOST_NAMES: Final = 500_000
"""Names in all tables of one kind of access, which take up to 60 MiB; then all are forgotten."""
_MOST_PATHS: Final = 16_384
"""Paths with a table, and chains that were asked for once: if there are more, these are forgotten.
There may be no end of paths below a queue, which must not cost the other queues their tables."""
_MOST_TABLES: Final = 16_384
"""When there are more, all are forgotten, too."""
_LONGEST_PATH: Final = 256
_MOST_NAMES_OF_ONE: Final = 1_000
"""A table of more names would take longer to make than it will ever save."""

By = dict[str, Any]
"""By the name of a user or group: the decision that it leads to, and as long as nobody asked
for it the path of the queue that lists it, a str."""


class Table(NamedTuple):
    """All that a chain says."""

    users: By
    otherwise: "Decision | None"
    """The decision if no user matches; None if it depends on the groups."""
    groups: By


class Tables:
    """The tables of one kind of access in one partition.

    May be used from several threads: each step is a single operation on a dictionary, and
    tables of one chain that are made twice are alike.
    """

    __slots__ = ("_by_chain", "_names", "_seen", "by_path")

    def __init__(self) -> None:
        """Start empty."""
        self.by_path: dict[str, Table] = {}
        """By the path asked for, of which there need not be a queue."""
        self._by_chain: dict[int, Table] = {}
        self._seen: set[int] = set()
        self._names = 0

    def note(self, path: str, chain: "Chain") -> Table | None:
        """Note that a path without a table was asked for; return the table that it now has, if
        its chain was asked for before.

        The chain must live as long as this object does.
        """
        number = id(chain)
        table = self._by_chain.get(number)
        if table is None:
            if number not in self._seen:
                if len(self._seen) >= _MOST_PATHS:
                    self._seen.clear()
                self._seen.add(number)
                return None
            size = sum(map(len, chain.users)) + sum(map(len, chain.groups))
            if size > _MOST_NAMES_OF_ONE:
                return None
            if self._names + size > _MOST_NAMES or len(self._by_chain) >= _MOST_TABLES:
                self._forget()
            self._names += size
            table = self._by_chain[number] = _table(chain)
        if len(path) <= _LONGEST_PATH:
            if len(self.by_path) >= _MOST_PATHS:
                self.by_path.clear()
            self.by_path[path] = table
        return table

    def _forget(self) -> None:
        self.by_path.clear()
        self._by_chain.clear()
        self._seen.clear()
        self._names = 0


def _table(chain: "Chain") -> Table:
    users: By = {}
    groups: By = {}
    for by, listed, queues in (
        (users, chain.users, chain.user_queues),
        (groups, chain.groups, chain.group_queues),
    ):
        # The nearest level is the first one, and comes last here: it is the one that counts.
        for names, queue in zip(reversed(listed), reversed(queues), strict=True):
            by.update(dict.fromkeys(names, queue))
    return Table(users, chain.otherwise, groups)
