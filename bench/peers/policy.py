"""The policy given to every server in the comparison, always the same.

200 queues on five levels, 2,000 users, 300 groups. Every closed queue lists users and groups. One
in twenty queues below the second level is open to all.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.policies import QueueSpec, ancestry

SEED: Final = 7

_QUEUES_BY_LEVEL: Final = (1, 4, 15, 50, 130)
_USERS: Final = 2_000
_GROUPS: Final = 300
_OPEN_ONE_IN: Final = 20
_FIRST_OPEN_LEVEL: Final = 3


class Policy(NamedTuple):
    """The queues, and the members of each group."""

    queues: Sequence[QueueSpec]
    members: Mapping[str, tuple[str, ...]]
    """The groups of each user."""


def generate(seed: int = SEED) -> Policy:
    """Return the policy of a seed."""
    rng = random.Random(seed)
    queues: list[QueueSpec] = []
    above = range(-1, 0)
    for level, count in enumerate(_QUEUES_BY_LEVEL, start=1):
        start = len(queues)
        for number in range(count):
            # The first ones rotate, so that every queue of the level above has children.
            parent = above[number % len(above)]
            is_open = level >= _FIRST_OPEN_LEVEL and number % _OPEN_ONE_IN == 0
            queues.append(_queue(rng, queues, parent, is_open=is_open))
        above = range(start, len(queues))
    members = {
        f"user{number}": _names(rng, "group", _GROUPS, rng.randint(3, 8))
        for number in range(_USERS)
    }
    return Policy(queues, members)


def decided_by(policy: Policy, user: str, index: int, *, is_admin: bool) -> str | None:
    """Return the kind of entry that grants access to a queue, computed in a slow and simple way:
    `wildcard`, `user`, `group`, or None. All servers must agree with it.
    """
    kinds = set()
    for queue in ancestry(policy.queues, index):
        users, groups = set(queue.admin_users), set(queue.admin_groups)
        if not is_admin:
            users |= set(queue.users)
            groups |= set(queue.groups)
            if queue.open_to_all:
                kinds.add("wildcard")
        if user in users:
            kinds.add("user")
        if groups & set(policy.members[user]):
            kinds.add("group")
    return next((kind for kind in ("wildcard", "user", "group") if kind in kinds), None)


def _queue(
    rng: random.Random, queues: Sequence[QueueSpec], parent: int, *, is_open: bool
) -> QueueSpec:
    is_root = parent < 0
    return QueueSpec(
        path="root" if is_root else f"{queues[parent].path}.q{len(queues)}",
        parent=parent,
        users=() if is_open else _names(rng, "user", _USERS, 2 if is_root else 20),
        groups=() if is_open else _names(rng, "group", _GROUPS, 1 if is_root else 3),
        admin_users=_names(rng, "user", _USERS, 2),
        admin_groups=_names(rng, "group", _GROUPS, 1),
        open_to_all=is_open,
    )


def _names(rng: random.Random, kind: str, of: int, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}{number}" for number in rng.sample(range(of), count))
