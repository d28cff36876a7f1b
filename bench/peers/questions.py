"""Questions about the policy of the comparison, half of which are denied."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.peers.policy import Policy, decided_by
from bench.policies import ancestry
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

MIX: Final[dict[str | None, int]] = {None: 50, "group": 30, "wildcard": 10, "user": 10}
"""The percentages of questions decided by nothing, a group, a user entry and a wildcard."""

_ADMIN_ONE_IN: Final = 10
_MAX_DRAWS: Final = 1_000_000


class Question(NamedTuple):
    """A question and its answer."""

    user: str
    groups: tuple[str, ...]
    queue: str
    is_admin: bool
    allowed: bool

    def message(self, *, with_groups: bool) -> access_pb2.CheckQueueAccessRequest:
        """Return the question as a request of our contract."""
        return access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=self.user, groups=self.groups if with_groups else ()),
            queue=self.queue,
            access=(
                access_pb2.ACCESS_TYPE_ADMIN if self.is_admin else access_pb2.ACCESS_TYPE_SUBMIT
            ),
        )

    @property
    def action(self) -> str:
        """The kind of access in one word."""
        return "admin" if self.is_admin else "submit"


class Questions:
    """A supply of distinct questions."""

    def __init__(self, policy: Policy, seed: int) -> None:
        """Create questions about this policy."""
        self._policy = policy
        self._rng = random.Random(seed)
        self._users = tuple(policy.members)
        self._seen: set[tuple[str, int, bool]] = set()

    def mixed(self, count: int) -> list[Question]:
        """Return questions with the distribution `MIX`, in random order.

        There are enough for about 100,000. Raises ValueError if a kind runs out.
        """
        kinds = tuple(MIX)
        wanted = {kind: count * MIX[kind] // 100 for kind in kinds}
        wanted[None] += count - sum(wanted.values())
        asked: list[Question] = []
        for kind, number in wanted.items():
            asked += (self._new(kind) for _ in range(number))
        self._rng.shuffle(asked)
        return asked

    def _new(self, kind: str | None) -> Question:
        policy, rng = self._policy, self._rng
        for _ in range(_MAX_DRAWS):
            index = rng.randrange(len(policy.queues))
            is_admin = rng.randrange(_ADMIN_ONE_IN) == 0
            user = rng.choice(self._likely(kind, index))
            key = (user, index, is_admin)
            if key in self._seen or decided_by(policy, user, index, is_admin=is_admin) != kind:
                continue
            self._seen.add(key)
            queue = policy.queues[index].path
            return Question(user, policy.members[user], queue, is_admin, kind is not None)
        raise ValueError(f"the policy has too few questions of kind {kind}")

    def _likely(self, kind: str | None, index: int) -> Sequence[str]:
        """Return users, some of whom are decided by that kind."""
        if kind != "user":
            return self._users
        listing = self._rng.choice([*ancestry(self._policy.queues, index)])
        return listing.users or listing.admin_users
