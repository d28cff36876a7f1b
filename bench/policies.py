"""Generated policies of any size, always the same for a size.

Every queue in the tree has up to six children, filled level by level: 100,000 queues make 8 levels.
Every queue lists 11 names. One leaf in twenty is open to all.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SMALL: Final = 10
MEDIUM: Final = 1_000
LARGE: Final = 100_000

_CHILDREN: Final = 6
_OPEN_ONE_IN: Final = 20
_USERS: Final = 50_000
_GROUPS: Final = 10_000


class QueueSpec(NamedTuple):
    """A queue of a generated policy."""

    path: str
    parent: int
    """The index of its parent, or -1 for the root."""
    users: tuple[str, ...]
    groups: tuple[str, ...]
    admin_users: tuple[str, ...]
    admin_groups: tuple[str, ...]
    open_to_all: bool

    @property
    def entries(self) -> int:
        """The number of names in its ACLs, including `*`."""
        names = (self.users, self.groups, self.admin_users, self.admin_groups)
        return sum(map(len, names)) + self.open_to_all

    @property
    def level(self) -> int:
        """The level, where the root is at 1."""
        return self.path.count(".") + 1


def generate(queues: int, line: int = 1) -> list[QueueSpec]:
    """Return that many queues, each after its parent. The first `line` queues form a chain, with
    the tree below the last of them, to get many levels with few queues.
    """
    rng = random.Random(queues)
    specs: list[QueueSpec] = []
    parents = [_parent(index, line) for index in range(queues)]
    first_leaf = parents[-1] + 1
    for index, parent in enumerate(parents):
        # The last one is open, and every twentieth counted from there.
        is_open = index >= first_leaf and (queues - 1 - index) % _OPEN_ONE_IN == 0
        specs.append(
            QueueSpec(
                path=f"{specs[parent].path}.q{index}" if index else "root",
                parent=parent,
                users=() if is_open else _names(rng, "user", _USERS, 4),
                groups=() if is_open else _names(rng, "team", _GROUPS, 4),
                admin_users=_names(rng, "user", _USERS, 1),
                admin_groups=_names(rng, "team", _GROUPS, 2),
                open_to_all=is_open,
            )
        )
    return specs


def small() -> list[QueueSpec]:
    """Return a few queues on as many levels as the large policy has."""
    return generate(SMALL, line=7)


def ancestry(specs: Sequence[QueueSpec], index: int) -> Iterator[QueueSpec]:
    """Yield a queue and all its ancestors, the root last."""
    while index >= 0:
        yield specs[index]
        index = specs[index].parent


def to_yaml(specs: Sequence[QueueSpec]) -> str:
    """Return the queues as a `queues.yaml` with one partition."""
    children: list[list[int]] = [[] for _ in specs]
    for index, spec in enumerate(specs[1:], start=1):
        children[spec.parent].append(index)
    lines = ["partitions:", "  - name: default", "    queues:"]

    def write(index: int, indent: str) -> None:
        spec = specs[index]
        submit = "'*'" if spec.open_to_all else f"{','.join(spec.users)} {','.join(spec.groups)}"
        lines.extend(
            (
                f"{indent}- name: {spec.path.rpartition('.')[2]}",
                f"{indent}  submitacl: {submit}",
                f"{indent}  adminacl: {','.join(spec.admin_users)} {','.join(spec.admin_groups)}",
            )
        )
        if children[index]:
            lines.append(f"{indent}  queues:")
            for child in children[index]:
                write(child, f"{indent}    ")

    write(0, "      ")
    return "\n".join(lines) + "\n"


def _parent(index: int, line: int) -> int:
    return index - 1 if index < line else line - 1 + (index - line) // _CHILDREN


def _names(rng: random.Random, kind: str, of: int, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}{number}" for number in rng.sample(range(of), count))
