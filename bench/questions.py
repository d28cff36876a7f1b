"""Questions about a generated policy, with answers known by construction."""

import random
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from bench.policies import QueueSpec, ancestry
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

_GROUPS_OF_A_USER: Final = 5
_GUESTS: Final = 5_000
_DIRECTORY_GROUPS: Final = 10_000
_MORE: Final = 0x80


class Kind(StrEnum):
    """The kind of a question, named after the rule that decides it."""

    USER = "user grant"
    GROUP = "group grant"
    RESOLVED_GROUP = "group grant, groups resolved"
    WILDCARD = "wildcard"
    DENIED = "denial"
    RESOLVED_DENIED = "denial, groups resolved"
    MISSING = "missing queue"


MIX: Final = {
    Kind.USER: 30,
    Kind.GROUP: 25,
    Kind.RESOLVED_GROUP: 10,
    Kind.WILDCARD: 5,
    Kind.DENIED: 15,
    Kind.RESOLVED_DENIED: 10,
    Kind.MISSING: 5,
}
"""The percentage of each kind in a mixed load."""


class Question(NamedTuple):
    """A question about submission, with its correct answer."""

    kind: Kind
    user: str
    groups: tuple[str, ...]
    queue: str
    allowed: bool

    def message(self) -> access_pb2.CheckQueueAccessRequest:
        """Return the question as a request."""
        return access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=self.user, groups=self.groups),
            queue=self.queue,
            access=access_pb2.ACCESS_TYPE_SUBMIT,
        )


class Questions:
    """An endless supply of distinct questions."""

    def __init__(
        self, specs: Sequence[QueueSpec], *, from_level: int = 1, few: bool = False
    ) -> None:
        """Create questions about the queues of a policy at this level and below, or about just
        three of these.
        """
        self._specs = specs
        self._rng = random.Random(len(specs))
        asked_for = [index for index, spec in enumerate(specs) if spec.level >= from_level]
        self._open = [index for index in asked_for if specs[index].open_to_all]
        self._closed = [index for index in asked_for if not specs[index].open_to_all]
        if few:
            self._open, self._closed = self._open[:1], self._closed[:2]
        self._seen: set[int] = set()

    def of(self, kind: Kind, count: int) -> list[Question]:
        """Return questions of one kind."""
        return [self._new(kind) for _ in range(count)]

    def mixed(self, count: int) -> list[Question]:
        """Return questions of all kinds, with the distribution `MIX`."""
        kinds = self._rng.choices(tuple(MIX), tuple(MIX.values()), k=count)
        return [self._new(kind) for kind in kinds]

    def _new(self, kind: Kind) -> Question:
        # Hashes take a tenth of the memory. Two that are equal by chance do no harm.
        while hash(asked := self._any(kind)) in self._seen:
            pass
        self._seen.add(hash(asked))
        return asked

    def _any(self, kind: Kind) -> Question:
        rng = self._rng
        if kind is Kind.WILDCARD:
            queue = self._specs[rng.choice(self._open)].path
            return Question(kind, self._guest(), self._outside_groups(), queue, allowed=True)
        index = rng.choice(self._closed)
        queue = self._specs[index].path
        granting = rng.choice([*ancestry(self._specs, index)])
        match kind:
            case Kind.GROUP:
                groups = list(self._outside_groups())
                groups[rng.randrange(len(groups))] = rng.choice(granting.groups)
                return Question(kind, self._guest(), tuple(groups), queue, allowed=True)
            case Kind.RESOLVED_GROUP:
                # The benchmark's server resolves a user to the group of the same name. The queue
                # does not exist, because the policy has too few queues for so many questions.
                queue += f".new{rng.randrange(1000)}"
                return Question(kind, rng.choice(granting.groups), (), queue, allowed=True)
            case Kind.DENIED:
                return Question(kind, self._guest(), self._outside_groups(), queue, allowed=False)
            case Kind.RESOLVED_DENIED:
                return Question(kind, self._guest(), (), queue, allowed=False)
            case Kind.MISSING:
                queue += f".new{rng.randrange(1000)}.child"
        user = rng.choice(granting.users)
        return Question(kind, user, self._outside_groups(), queue, allowed=True)

    def _guest(self) -> str:
        return f"guest{self._rng.randrange(_GUESTS)}"

    def _outside_groups(self) -> tuple[str, ...]:
        numbers = self._rng.sample(range(_DIRECTORY_GROUPS), _GROUPS_OF_A_USER)
        return tuple(f"directory{number}" for number in numbers)


def batches(
    asked: Sequence[Question], size: int
) -> Iterator[access_pb2.BatchCheckQueueAccessRequest]:
    """Split questions into batches of one size. The remainder is not asked."""
    for start in range(0, len(asked) - size + 1, size):
        checks = [question.message() for question in asked[start : start + size]]
        yield access_pb2.BatchCheckQueueAccessRequest(checks=checks)


def undelimited(data: bytes) -> list[bytes]:
    """Return the messages joined by `delimited`."""
    messages = []
    position = 0
    while position < len(data):
        size = shift = 0
        while (byte := data[position]) >= _MORE:
            size |= (byte & (_MORE - 1)) << shift
            shift += 7
            position += 1
        size |= byte << shift
        position += 1
        messages.append(data[position : position + size])
        position += size
    return messages


def delimited(messages: Iterable[bytes]) -> bytes:
    """Join messages, each preceded by its length as a varint, as ghz reads them."""
    parts: list[bytes] = []
    for message in messages:
        head = bytearray()
        size = len(message)
        while size >= _MORE:
            head.append(size & (_MORE - 1) | _MORE)
            size >>= 7
        head.append(size)
        parts += (bytes(head), message)
    return b"".join(parts)
