"""The two halves of a question as bytes: who asks, and what for.

Questions that were never asked before are mostly made of halves that were: this user, with
these groups, and this queue. What a half says is parsed, checked, and kept by its bytes: of the
first one when it comes again, of the second one for as long as a snapshot is served. What is wrong
or unusual is left to `convert.question`, which tells what is wrong with it.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.snapshot import Served, Snapshot, UnknownPartition

_KEPT: Final = 32_768
"""Of each half, at most; when there are more, all of them are forgotten."""
_LONGEST: Final = 512
"""Longer halves are not kept, which bounds the memory at about 40 MiB."""
_SEEN: Final = 32_768
"""So many hashes of first halves are remembered; one that is seen again is kept."""
_USER: Final = 0x0A
"""The tag of the field `user`, with which questions begin."""
_SHORT: Final = 0x80
"""A length below this takes one byte."""

Who = tuple[str, Sequence[str]]
What = tuple[Served, str, Access]


class Halves:
    """What halves of questions mean. Used from one event loop."""

    def __init__(self) -> None:
        """Know none."""
        # Apart: in a partition of YARN more names are valid.
        self._who: tuple[dict[bytes, Who], dict[bytes, Who]] = ({}, {})
        self._seen = [0] * _SEEN
        self._what: dict[bytes, What] = {}
        self._snapshot: Snapshot | None = None

    def forget(self) -> None:
        """Let go of the snapshot, and of what the second halves mean in it."""
        self._snapshot = None
        self._what = {}

    def of(self, request: bytes, snapshot: Snapshot) -> tuple[Who, What] | None:
        """Return the halves of a CheckQueueAccessRequest; None if it is unusual or wrong."""
        if len(request) < 2 or request[0] != _USER or (end := request[1]) >= _SHORT:  # noqa: PLR2004 - tag, length
            return None
        end += 2
        head, tail = request[2:end], request[end:]
        if snapshot is not self._snapshot:
            self.forget()
            self._snapshot = snapshot
        what = self._what.get(tail) or self._parse_what(tail, snapshot)
        if what is None:
            return None
        partition = what[0].partition
        known = self._who[partition.cluster is not None]
        who = known.get(head)
        if who is None:
            who = self._parse_who(head, end - 2, partition)
            if who is None:
                return None
            # To keep what never comes again costs as much as to parse it.
            number = hash(head)
            place = number % _SEEN
            if self._seen[place] == number:
                if len(known) >= _KEPT:
                    known.clear()
                known[head] = who
            self._seen[place] = number
        return who, what

    def _parse_who(self, head: bytes, size: int, partition: Partition) -> Who | None:
        if len(head) != size:
            return None
        try:
            asking = UserGroupInformation.FromString(head)
        except DecodeError:
            return None
        user, groups = found = asking.user, tuple(asking.groups[:])
        # What is printable ASCII has no control characters, and of a half everything is short.
        names = user + "".join(groups)
        if not (
            user
            and "" not in groups
            and names.isascii()
            and names.isprintable()
            and (user.isidentifier() or not groups)
        ):
            faults: convert.Violations = []
            convert.who(asking, partition, faults)
            if faults:
                return None
        return found

    def _parse_what(self, tail: bytes, snapshot: Snapshot) -> What | None:
        faults: convert.Violations = []
        try:
            asked = wire.parse(access_pb2.CheckQueueAccessRequest, tail)
            if asked.HasField("user"):  # a second one, to be merged with the first
                return None
            if asked.real_user:
                return None
            convert.check_partition(asked.partition, faults)
            served = snapshot.find(asked.partition)
        except (InvalidRequest, UnknownPartition):
            return None
        access = convert.ACCESS.get(asked.access)
        path = convert.queue_field("queue", asked.queue, served.partition, faults)
        if faults or access is None:
            return None
        found = served, path, access
        if len(tail) <= _LONGEST:
            if len(self._what) >= _KEPT:
                self._what.clear()
            self._what[tail] = found
        return found
