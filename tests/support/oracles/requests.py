"""The expected answers to requests, both valid and invalid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from queuegate.v1 import access_pb2
from tests.support.oracles.queue_access import DIGITS, LETTERS, PolicyOracle

TABLE: Final[Mapping[str, tuple[str, ...] | None]] = {
    "testuser1": ("group1000", "group1001"),
    "testuser2": ("100", "group1001", "group1002"),
    "testuser3": ("group1001", "group1002", "group1003", "group1004"),
    "testuser4": ("901", "902"),
    "testuser5": None,
    "invalid-gid-user": None,
}
"""The groups of all users that the resolver `test` knows; None if it fails. A damaged name may
equal another one.
"""

DENIED: Final = "denied"
GRANTED: Final = "granted"
INVALID: Final = "INVALID_ARGUMENT"
UNKNOWN_PARTITION: Final = "NOT_FOUND"
UNAVAILABLE: Final = "UNAVAILABLE"


@dataclass(frozen=True)
class RequestOracle:
    """The partitions `default` (a user is in the group of the same name) and `table`."""

    default: PolicyOracle
    table: PolicyOracle

    def expected(self, data: bytes) -> str:
        """Return the expected answer to the bytes of a question."""
        try:
            request = access_pb2.CheckQueueAccessRequest.FromString(data)
        except DecodeError:
            return INVALID
        # A random cursor belongs to another server.
        return UNAVAILABLE if request.HasField("at_least") else self._answer(request)

    def _answer(self, request: access_pb2.CheckQueueAccessRequest) -> str:
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


def known_to_explain(item: bytes) -> bytes:
    """Remove fields that only checks have, since damage may turn others into them."""
    try:
        request = access_pb2.ExplainQueueAccessRequest.FromString(item)
    except DecodeError:
        return item
    request.DiscardUnknownFields()
    return request.SerializeToString()


def is_name(text: str) -> bool:
    return 1 <= len(text.encode()) <= 1_024 and not any(map(is_control, text))


def is_control(character: str) -> bool:
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
