"""Validates messages from callers of SyncService."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate.v1 import sync_pb2
from queuegate_server.rpc import validation, wire
from queuegate_server.rpc.errors import WHOLE_REQUEST, InvalidRequest
from queuegate_server.sync.change_log import EPOCH_BYTES

MAX_NAME_BYTES: Final = 256
MAX_AGENT_BYTES: Final = 64
MAX_PARTITIONS: Final = 10_000
MAX_PARTITION_CHARACTERS: Final = 1024 * 1024
"""The maximum total length of the partition names in one message."""
MAX_DIGEST_BYTES: Final = 64
MAX_FLEET_EPOCH_BYTES: Final = 64
INSTANCE_BYTES: Final = 16
MAX_RULES: Final = 100
MAX_WANTED: Final = 1_000
"""The maximum number of users in one message."""
MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
MAX_FIELDS: Final = 2 * MAX_PARTITIONS + 1_000
"""The maximum number of fields in a message and its submessages."""


def parse(data: bytes) -> sync_pb2.SyncRequest:
    """Parse a message. Raises InvalidRequest."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidRequest([(WHOLE_REQUEST, f"is longer than {MAX_MESSAGE_BYTES} bytes")])
    wire.bound_fields(sync_pb2.SyncRequest, data, MAX_FIELDS)
    request = wire.parse(sync_pb2.SyncRequest, data)
    violations: validation.Violations = []
    kind = request.WhichOneof("message")
    if kind is not None and kind in _CHECKS:
        _CHECKS[kind](getattr(request, kind), violations)
    validation.raise_if(violations)
    return request


def _check_open(request: sync_pb2.SyncOpen, violations: validation.Violations) -> None:
    _check_text("open.name", request.name, MAX_NAME_BYTES, violations)
    _check_text("open.agent", request.agent, MAX_AGENT_BYTES, violations)
    _check_size("open.resume.epoch", request.resume.epoch, EPOCH_BYTES, violations)
    fleet_epoch = request.fleet_cursor.epoch
    _check_size("open.fleet_cursor.epoch", fleet_epoch, MAX_FLEET_EPOCH_BYTES, violations)
    if request.instance and len(request.instance) != INSTANCE_BYTES:
        violations.append(("open.instance", f"must have {INSTANCE_BYTES} bytes, or none"))
    if len(request.rules) > MAX_RULES:
        violations.append(("open.rules", f"has more than {MAX_RULES} items"))
    _check_partitions(request, violations)


def _check_partitions(request: sync_pb2.SyncOpen, violations: validation.Violations) -> None:
    for field in ("partitions", "held"):
        if len(getattr(request, field)) > MAX_PARTITIONS:
            violations.append((f"open.{field}", f"has more than {MAX_PARTITIONS} items"))
            return
    names = (*request.partitions, *(held.partition for held in request.held))
    if sum(map(len, names)) > MAX_PARTITION_CHARACTERS:
        text = f"has partition names of more than {MAX_PARTITION_CHARACTERS} characters"
        violations.append(("open", text))
        return
    for index, name in enumerate(request.partitions):
        validation.check_required_name(f"open.partitions[{index}]", name, violations)
    for index, held in enumerate(request.held):
        field = f"open.held[{index}]"
        validation.check_required_name(f"{field}.partition", held.partition, violations)
        for part in ("checksum", "resolver_fingerprint"):
            _check_size(f"{field}.{part}", getattr(held, part), MAX_DIGEST_BYTES, violations)


def _check_want(request: sync_pb2.SyncWant, violations: validation.Violations) -> None:
    validation.check_name("partition", request.partition, violations)
    if not 0 < len(request.users) <= MAX_WANTED:
        violations.append(("want.users", f"must have 1 to {MAX_WANTED} users"))
        return
    for index, user in enumerate(request.users):
        validation.check_required_name(f"want.users[{index}]", user, violations)


def _check_text(field: str, text: str, limit: int, violations: validation.Violations) -> None:
    _check_size(field, text.encode(), limit, violations)
    if CONTROL_CHARACTER.search(text):
        violations.append((field, "has a control character"))


def _check_size(field: str, data: bytes, limit: int, violations: validation.Violations) -> None:
    if len(data) > limit:
        violations.append((field, f"is longer than {limit} bytes"))


_CHECKS: Final[Mapping[str, Callable[[Any, validation.Violations], None]]] = {
    "open": _check_open,
    "want": _check_want,
}
