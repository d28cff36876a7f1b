"""Random requests, both valid and invalid."""

import random
from typing import Final, cast

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

USERS: Final = [
    "alice",
    "bob",
    "carol.d",
    "_e-f",
    "g@h",
    "testuser1",
    "testuser2",
    "testuser5",
    "z$",
]
GROUPS: Final = ["staff", "group1001", "group1002", "bob", "_ops", "dev-1", "alice"]
_ODD_USERS = ["", "a b", "*", "é", "x" * 1_024, "x" * 1_025, "é" * 512, "é" * 513, "a\0", "a\nb"]
_ODD_USERS += ["nouser", "9x", "a:b", "a,b", "$", " ", "\x7f", "\u0085", "a" * 65, "ALICE", "😀"]
_ODD_GROUPS = ["", "*", "a b", "g" * 1_024, "g" * 1_025, "\0", "é" * 513, "STAFF", "staff ", "\x1b"]
_PARTITIONS = ["", "default", "[rm-1]default", "table", "[x]table"]
_ODD_PARTITIONS = ["nowhere", "DEFAULT", "[rm]", "[table", "a\0", "p" * 1_025, " table", "[]table"]
_ODD_QUEUES = ["", "root.", "root..a", ".root", "rootx", "root.a b", "root.\u212a", "a.root.b"]
_ODD_QUEUES += ["root." + "x" * 64, "root." + "x" * 65, "root" + ".a" * 2046, "root" + ".a" * 2047]
_ODD_QUEUES += ["root.@recovery@", "root.@recovery@.x", "ROOT.@Recovery@", "root.@recovery@x"]
_ODD_QUEUES += ["root.\0", "root.é", "root.*", "root.%", "root.a:b#c/d@e-f_g", "root.\n", "root "]
_ODD_ACCESS = [0, 3, -1, 2**31 - 1, -(2**31)]


class RequestGenerator:
    """Generates random requests. The same seed gives the same requests."""

    def __init__(self, rng: random.Random, paths: list[str]) -> None:
        self._rng = rng
        self._paths = paths

    def question(self) -> bytes:
        """Return a question: most are valid, some have one odd field, and few have several."""
        rng = self._rng
        odd = rng.choice([0.0, 0.0, 0.1, 0.5])
        groups: list[str] = []
        if rng.random() < 0.4:
            groups = [self._one(GROUPS, _ODD_GROUPS, odd) for _ in range(rng.randrange(1, 5))]
        user = self._one(USERS, _ODD_USERS, odd)
        if rng.random() < 0.1:
            user = f"user-{rng.randrange(10_000)}"
        return access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=user, groups=groups),
            partition=self._one(_PARTITIONS, _ODD_PARTITIONS, odd),
            queue=self._queue(odd),
            access=_access(rng.choice(_ODD_ACCESS if rng.random() < odd else [1, 2])),
            real_user=self._one(USERS, _ODD_USERS, odd) if rng.random() < 0.1 else "",
        ).SerializeToString()

    def mutated(self, data: bytes) -> bytes:
        """Return bytes that were damaged in one to four places."""
        changed = bytearray(data)
        for _ in range(self._rng.randrange(1, 5)):
            self._rng.choice(_DAMAGES)(self._rng, changed)
        return bytes(changed[:4096])

    def _queue(self, odd: float) -> str:
        queue = self._one(self._paths, _ODD_QUEUES, odd)
        form = self._rng.random()
        if form < 0.1:
            return queue.upper()
        if form < 0.3:
            return f"{queue}.new-{self._rng.randrange(100)}.x"
        return queue

    def _one(self, usual: list[str], odd_ones: list[str], odd: float) -> str:
        return self._rng.choice(odd_ones if self._rng.random() < odd else usual)


def _access(number: int) -> access_pb2.AccessType.ValueType:
    return cast("access_pb2.AccessType.ValueType", number)  # the wire accepts any


def _flip(rng: random.Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.randrange(1, 6)]


def _insert(rng: random.Random, data: bytearray) -> None:
    place = rng.randrange(len(data) + 1)
    data[place:place] = rng.randbytes(rng.randrange(1, 6))


def _repeat(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data) + 1)
    data += data[start:]


def _huge_number(rng: random.Random, data: bytearray) -> None:
    """Append a number, possibly longer than allowed, in a known or an unknown field."""
    tag = rng.choice([b"\x20", b"\xf8\x01", b"\x08", b"\xf8\xff\xff\xff\x0f"])
    data += tag + b"\xff" * rng.randrange(12) + b"\x01"


def _deep_groups(rng: random.Random, data: bytearray) -> None:
    """Append groups (the old wire type) within groups, perhaps unterminated."""
    depth = rng.choice([1, 30, 99, 101, 500])
    data += b"\x7b" * depth + b"\x7c" * (depth - rng.randrange(2))


def _deep_messages(rng: random.Random, data: bytearray) -> None:
    """Append an unknown field with fields within fields."""
    inner = b""
    for _ in range(rng.choice([5, 40])):
        inner = b"\x7a" + bytes([len(inner)]) + inner if len(inner) < 128 else inner
    data += inner


def _not_utf8(rng: random.Random, data: bytearray) -> None:
    data += rng.choice([b"\x12\x02\xc3\x28", b"\x1a\x01\xff", b"\x0a\x04\x0a\x02\xed\xa0"])


_DAMAGES: Final = [
    _flip, _flip, _cut, _insert, _repeat, _huge_number, _deep_groups, _deep_messages, _not_utf8,
]  # fmt: skip
