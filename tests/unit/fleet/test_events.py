"""Events and statuses as they are written to Redis, which only replicas can write."""

import json
from dataclasses import replace

import pytest

from queuegate_server.fleet.events import (
    MAX_NAMES_BYTES,
    MAX_SCHEDULERS,
    Change,
    MalformedValue,
    ReplicaStatus,
    decode_event,
    decode_status,
    encode_change,
    encode_status,
    event_parts,
)
from queuegate_server.fleet.keys import LogPosition, Signer
from queuegate_server.fleet.view import QueueDecisions
from queuegate_server.sync.change_log import MAX_INVALIDATED

SIGNER = Signer(b"s" * 32, "event")
POSITION = LogPosition(b"e" * 16, 7, b"nonce")
CHANGE = Change.invalidate("default", ("sam", "eve"), is_awaited=True)


def fields(change: Change = CHANGE) -> dict[bytes, bytes]:
    content = encode_change(change)
    mac = SIGNER.mac(*event_parts(POSITION, b"before", content))
    return {b"id": POSITION.nonce, b"previous": b"before", b"event": content, b"mac": mac}


def test_an_event_is_read_as_it_was_written() -> None:
    event = decode_event(SIGNER, POSITION.epoch, (7, 0), fields())
    assert (event.position, event.previous, event.change) == (POSITION, b"before", CHANGE)


@pytest.mark.parametrize("field", [b"id", b"previous", b"event", b"mac"])
def test_an_event_of_somebody_else_is_refused(field: bytes) -> None:
    for value in (b"", b"x", fields()[field] + b" "):
        with pytest.raises(MalformedValue):
            decode_event(SIGNER, POSITION.epoch, (7, 0), fields() | {field: value})
    with pytest.raises(MalformedValue):
        decode_event(
            SIGNER, POSITION.epoch, (7, 0), {k: v for k, v in fields().items() if k != field}
        )


def test_an_event_cannot_be_moved_or_taken_to_another_fleet() -> None:
    for signer, epoch, place in (
        (SIGNER, POSITION.epoch, (8, 0)),
        (SIGNER, POSITION.epoch, (7, 1)),
        (SIGNER, b"o" * 16, (7, 0)),
        (Signer(b"t" * 32, "event"), POSITION.epoch, (7, 0)),
        (Signer(b"s" * 32, "status"), POSITION.epoch, (7, 0)),
    ):
        with pytest.raises(MalformedValue):
            decode_event(signer, epoch, place, fields())


def test_many_users_are_all_users() -> None:
    many = [f"u{number}" for number in range(MAX_INVALIDATED + 1)]
    assert Change.invalidate("default", many, is_awaited=False).users == frozenset()


def test_users_with_long_names_are_all_users() -> None:
    """An event that many replicas read must not be large."""
    long = [f"{number:0{MAX_NAMES_BYTES // 4}}" for number in range(5)]
    assert Change.invalidate("default", long[:4], is_awaited=False).users == frozenset(long[:4])
    assert Change.invalidate("default", long, is_awaited=False).users == frozenset()


def test_an_event_of_a_later_version_is_not_taken_for_carried_out() -> None:
    content = b'{"kind":"drain","partition":"","users":[],"is_awaited":false}'
    mac = SIGNER.mac(*event_parts(POSITION, b"previous", content))
    written = {b"id": POSITION.nonce, b"previous": b"previous", b"event": content, b"mac": mac}
    with pytest.raises(MalformedValue):
        decode_event(SIGNER, POSITION.epoch, (POSITION.sequence, 0), written)


def test_a_status_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    content = b'{"instance":"id","name":"a","serial":3,"mood":"good"}'
    assert decode_status(SIGNER, SIGNER.mac(content) + content) == ReplicaStatus("id", "a", 3)


def test_a_status_is_read_as_it_was_written_and_not_otherwise() -> None:
    status = ReplicaStatus(
        "id",
        "a",
        3,
        role="webhook",
        epoch="ee",
        sequence=4,
        confirmed_through=(2, "ff"),
        confirmed={"aa": ["gate"]},
        queue_decisions=[QueueDecisions("kueue", "deny", 4, 3, 2, 1)],
        http_addresses=["127.0.0.1:8080"],
    )
    data = encode_status(SIGNER, status)
    assert decode_status(SIGNER, data) == status
    assert (
        decode_status(
            SIGNER, encode_status(SIGNER, replace(status, confirmed_through=None))
        ).confirmed_through
        is None
    )
    for changed in (b"", data[:-1], data + b" ", b"x" * 40):
        with pytest.raises(MalformedValue):
            decode_status(SIGNER, changed)
    unknown = b'{"surprise":1}'
    with pytest.raises(MalformedValue):
        decode_status(SIGNER, SIGNER.mac(unknown) + unknown)


def _status(rows: object) -> bytes:
    content = json.dumps({"instance": "i", "name": "a", "serial": 1, "queue_decisions": rows})
    return SIGNER.mac(content.encode()) + content.encode()


def test_decisions_are_bounded_and_read_as_far_as_they_are_known() -> None:
    row = ["kai", "warn", 1, 2, 3, 4]
    status = decode_status(SIGNER, _status([[*row, "of a later version"]] * (MAX_SCHEDULERS + 1)))
    assert status.queue_decisions == [QueueDecisions("kai", "warn", 1, 2, 3, 4)] * MAX_SCHEDULERS


@pytest.mark.parametrize("rows", [[["kai"]], [[]], [7], [["kai", "warn", "many"]], [[1, 2, -1]]])
def test_decisions_that_are_no_decisions_are_refused(rows: object) -> None:
    with pytest.raises(MalformedValue):
        decode_status(SIGNER, _status(rows))
