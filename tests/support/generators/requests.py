"""Random requests, valid and not, and what must come of each: a model beside the server."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from google.protobuf.message import DecodeError

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.generators.policies import Oracle
from tests.support.oracles.queue_access import DIGITS, LETTERS

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
TABLE: Final[Mapping[str, tuple[str, ...] | None]] = {
    "testuser1": ("group1000", "group1001"),
    "testuser2": ("100", "group1001", "group1002"),
    "testuser3": ("group1001", "group1002", "group1003", "group1004"),
    "testuser4": ("901", "902"),
    "testuser5": None,
    "invalid-gid-user": None,
}
"""The groups of all users that the resolver `test` knows; None: it fails. A damaged name may
be that of another one.
"""

DENIED: Final = "denied"
GRANTED: Final = "granted"
INVALID: Final = "INVALID_ARGUMENT"
UNKNOWN_PARTITION: Final = "NOT_FOUND"
UNAVAILABLE: Final = "UNAVAILABLE"

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


@dataclass(frozen=True)
class Model:
    """The partitions `default` (a user is in the group of her name) and `table`."""

    default: Oracle
    table: Oracle

    def expected(self, data: bytes) -> str:
        """Say what must come of the bytes of a question."""
        try:
            request = access_pb2.CheckQueueAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        name = request.partition
        if name and not is_name(name):
            return INVALID
        if name.startswith("[") and "]" in name:
            name = name[name.index("]") + 1 :]
        elif name == "":
            name = "default"
        if name not in {"default", "table"}:
            return UNKNOWN_PARTITION
        if not _is_valid(request):
            return INVALID
        oracle = self.default if name == "default" else self.table
        user, access = request.user.user, ("submit", "admin")[request.access - 1]
        groups: tuple[str, ...] | None = tuple(request.user.groups)
        if not groups:
            groups = (user,) if name == "default" else TABLE.get(user, ())
        if groups is None:
            if oracle.needs_groups(request.queue, access, user):
                return UNAVAILABLE
            groups = ()
        return GRANTED if oracle.allows(request.queue, access, user, groups) else DENIED


def _is_valid(request: access_pb2.CheckQueueAccessRequest) -> bool:
    user, groups = request.user.user, request.user.groups
    return (
        is_name(user)
        and len(groups) <= 10_000
        and all(map(is_name, groups))
        and (not groups or is_plain_user(user))
        and (request.real_user == "" or is_name(request.real_user))
        and is_queue(request.queue)
        and request.access in {1, 2}
    )


def is_name(text: str) -> bool:
    return 1 <= len(text.encode()) <= 1_024 and not any(map(_is_control, text))


def _is_control(character: str) -> bool:
    number = ord(character)
    return number < 0x20 or 0x7F <= number < 0xA0 or number in {0x2028, 0x2029}


def is_plain_user(name: str) -> bool:
    name = name.removesuffix("$")
    if name == "" or name[0] not in LETTERS + "_":
        return False
    return all(character in LETTERS + DIGITS + ":#/_.@-" for character in name)


def is_queue(path: str) -> bool:
    first, *levels = path.split(".")
    return (
        first in {a + b for a in ("ro", "Ro", "rO", "RO") for b in ("ot", "Ot", "oT", "OT")}
        and len(path) <= 4096
        and all(
            1 <= len(level) <= 64 and all(c in LETTERS + DIGITS + "_:#/@-" for c in level)
            for level in levels
        )
    )


class Requests:
    """Makes random requests; one seed makes the same ones again."""

    def __init__(self, chance: random.Random, paths: list[str]) -> None:
        self._chance = chance
        self._paths = paths

    def question(self) -> bytes:
        """Return a question: most are valid, some have one odd field, few have several."""
        chance = self._chance
        odd = chance.choice([0.0, 0.0, 0.1, 0.5])
        groups: list[str] = []
        if chance.random() < 0.4:
            groups = [self._one(GROUPS, _ODD_GROUPS, odd) for _ in range(chance.randrange(1, 5))]
        user = self._one(USERS, _ODD_USERS, odd)
        if chance.random() < 0.1:
            user = f"user-{chance.randrange(10_000)}"
        return access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=user, groups=groups),
            partition=self._one(_PARTITIONS, _ODD_PARTITIONS, odd),
            queue=self._queue(odd),
            access=_access(chance.choice(_ODD_ACCESS if chance.random() < odd else [1, 2])),
            real_user=self._one(USERS, _ODD_USERS, odd) if chance.random() < 0.1 else "",
        ).SerializeToString()

    def mutated(self, data: bytes) -> bytes:
        """Return bytes that were damaged in one to four places."""
        changed = bytearray(data)
        for _ in range(self._chance.randrange(1, 5)):
            self._chance.choice(_DAMAGES)(self._chance, changed)
        return bytes(changed[:4096])

    def _queue(self, odd: float) -> str:
        queue = self._one(self._paths, _ODD_QUEUES, odd)
        form = self._chance.random()
        if form < 0.1:
            return queue.upper()
        if form < 0.3:
            return f"{queue}.new-{self._chance.randrange(100)}.x"
        return queue

    def _one(self, usual: list[str], odd_ones: list[str], odd: float) -> str:
        return self._chance.choice(odd_ones if self._chance.random() < odd else usual)


def _access(number: int) -> access_pb2.AccessType.ValueType:
    return cast("access_pb2.AccessType.ValueType", number)  # the wire takes any


def _flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _cut(chance: random.Random, data: bytearray) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.randrange(1, 6)]


def _insert(chance: random.Random, data: bytearray) -> None:
    place = chance.randrange(len(data) + 1)
    data[place:place] = chance.randbytes(chance.randrange(1, 6))


def _repeat(chance: random.Random, data: bytearray) -> None:
    start = chance.randrange(len(data) + 1)
    data += data[start:]


def _huge_number(chance: random.Random, data: bytearray) -> None:
    """Append a number: of any length, the longest not allowed, in a known field or not."""
    tag = chance.choice([b"\x20", b"\xf8\x01", b"\x08", b"\xf8\xff\xff\xff\x0f"])
    data += tag + b"\xff" * chance.randrange(12) + b"\x01"


def _deep_groups(chance: random.Random, data: bytearray) -> None:
    """Append groups (the old wire type) within groups, perhaps with no end."""
    depth = chance.choice([1, 30, 99, 101, 500])
    data += b"\x7b" * depth + b"\x7c" * (depth - chance.randrange(2))


def _deep_messages(chance: random.Random, data: bytearray) -> None:
    """Append an unknown field with fields within fields."""
    inner = b""
    for _ in range(chance.choice([5, 40])):
        inner = b"\x7a" + bytes([len(inner)]) + inner if len(inner) < 128 else inner
    data += inner


def _not_utf8(chance: random.Random, data: bytearray) -> None:
    data += chance.choice([b"\x12\x02\xc3\x28", b"\x1a\x01\xff", b"\x0a\x04\x0a\x02\xed\xa0"])


_DAMAGES: Final = [
    _flip, _flip, _cut, _insert, _repeat, _huge_number, _deep_groups, _deep_messages, _not_utf8,
]  # fmt: skip
