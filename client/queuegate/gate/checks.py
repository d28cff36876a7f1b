"""Validation of a server's messages.

A gate trusts its server, but the server may be faulty, or another program may be running in its
place. A message that exceeds the bounds closes the stream; the gate drops its copy of the policies
and sends checks to the server.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

from queuegate.gate import bounds
from queuegate.v1 import sync_pb2, user_groups_pb2

_MAX_UTF8_BYTES: Final = 4
"""The maximum size of a character in UTF-8."""
_MILLIS: Final = 1_000
_MAX_LEASE: Final = int(bounds.MAX_LEASE_SECONDS * _MILLIS)
_MAX_PING: Final = int(bounds.MAX_PING_SECONDS * _MILLIS)
_RESOLVED: Final = user_groups_pb2.RESOLVE_OUTCOME_RESOLVED
_NOT_FOUND: Final = user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND
_TABLES: Final = ("levels", "configured_queues", "created_queues")
"""The fields of a policy part that are tables."""
_OF_FIRST_PARTS: Final = (
    "revision",
    "checksum",
    "use_given_groups",
    "rules",
    "resolver_fingerprint",
    "naming",
    "ambiguous_level",
)
"""The fields that only a policy's first part may have."""


class BrokenProtocol(Exception):
    """A message from the server that violates the protocol. The text describes the violation."""


def read_response(data: bytes) -> sync_pb2.SyncResponse | BrokenProtocol:
    """Parse a message. Faults are returned, not raised, because gRPC would hide an exception."""
    if len(data) > bounds.MAX_MESSAGE_BYTES:
        text = f"a message has {len(data)} bytes; the limit is {bounds.MAX_MESSAGE_BYTES}"
        return BrokenProtocol(text)
    try:
        return sync_pb2.SyncResponse.FromString(data)
    except DecodeError:
        return BrokenProtocol("the bytes are not a message of SyncService")


def check(response: sync_pb2.SyncResponse) -> None:
    """Raise ValueError if a message exceeds the bounds.

    The reflector turns the ValueError into BrokenProtocol, as it does for those raised by the
    policy's tables.
    """
    kind = response.WhichOneof("message")
    if kind is not None and kind in _CHECKS:
        _CHECKS[kind](getattr(response, kind))


def has_usable_groups(groups: sync_pb2.UserGroups) -> bool:
    """Return whether a gate can use a user's groups.

    If not, the gate sends the user's checks to the server. The stream stays open, because the fault
    affects only a single user.
    """
    if groups.outcome == _NOT_FOUND:
        return True
    return (
        groups.outcome == _RESOLVED
        and len(groups.groups) <= bounds.MAX_GROUPS
        and not any(_is_longer(group, bounds.MAX_NAME_BYTES) for group in groups.groups)
    )


def _is_longer(text: str, limit: int) -> bool:
    """Return whether a string exceeds `limit` bytes in UTF-8, encoding it only if necessary."""
    return _MAX_UTF8_BYTES * len(text) > limit and len(text.encode()) > limit


def _check_opened(opened: sync_pb2.SyncOpened) -> None:
    if not opened.lease_millis or not opened.ping_interval_millis:
        raise ValueError("`opened` must have a lease and a ping interval")
    if opened.lease_millis > _MAX_LEASE:
        raise ValueError(
            f"`opened` has a lease of {opened.lease_millis} ms; the longest is {_MAX_LEASE} ms"
        )
    if opened.ping_interval_millis > _MAX_PING:
        raise ValueError(
            f"`opened` has a ping interval of {opened.ping_interval_millis} ms; the longest is"
            f" {_MAX_PING} ms"
        )
    _check_bytes("opened.epoch", opened.epoch, bounds.MAX_EPOCH_BYTES)
    _check_partitions("opened.partitions", opened.partitions)
    _check_partitions("opened.keep_groups_of", opened.keep_groups_of)


def _check_policy(part: sync_pb2.PolicyPart) -> None:
    _check_partitions("policy.partition", [part.partition])
    _check_bytes("policy.checksum", part.checksum, bounds.MAX_DIGEST_BYTES)
    fingerprint = part.resolver_fingerprint
    _check_bytes("policy.resolver_fingerprint", fingerprint, bounds.MAX_DIGEST_BYTES)
    if part.removed and part.unchanged:
        raise ValueError(f"the policy of {part.partition!r} is both removed and unchanged")
    has_no_tables = part.removed or part.unchanged
    if has_no_tables and (part.names or any(part.HasField(table) for table in _TABLES)):
        raise ValueError(
            f"the policy of {part.partition!r} is removed or unchanged, but has queues"
        )
    if not (part.first or has_no_tables) and any(getattr(part, name) for name in _OF_FIRST_PARTS):
        raise ValueError(
            f"a later part of the policy of {part.partition!r} has fields of the first part"
        )


def _check_forget(forget: sync_pb2.Forget) -> None:
    _check_count("forget.users", len(forget.users), bounds.MAX_FORGOTTEN)


def _check_checkpoint(checkpoint: sync_pb2.SyncCheckpoint) -> None:
    epoch = checkpoint.fleet_cursor.epoch
    _check_bytes("checkpoint.fleet_cursor.epoch", epoch, bounds.MAX_DIGEST_BYTES)


def _check_partitions(field: str, names: Collection[str]) -> None:
    _check_count(field, len(names), bounds.MAX_PARTITIONS)
    for name in names:
        if not name or _is_longer(name, bounds.MAX_NAME_BYTES):
            raise ValueError(f"`{field}`: a name must have 1 to {bounds.MAX_NAME_BYTES} bytes")


def _check_bytes(field: str, value: bytes, limit: int) -> None:
    if len(value) > limit:
        raise ValueError(f"`{field}` has {len(value)} bytes; the limit is {limit}")


def _check_count(field: str, count: int, limit: int) -> None:
    if count > limit:
        raise ValueError(f"`{field}` has {count} items; the limit is {limit}")


_CHECKS: Final[Mapping[str, Callable[[Any], None]]] = {
    "opened": _check_opened,
    "policy": _check_policy,
    "forget": _check_forget,
    "checkpoint": _check_checkpoint,
}
