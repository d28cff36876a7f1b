"""Events and rows as they are written to Redis, which only replicas can write."""

from dataclasses import replace

import pytest

from queuegate_server.fleet.events import (
    Change,
    Malformed,
    Row,
    decode_event,
    decode_row,
    encode_change,
    encode_row,
    event_parts,
)
from queuegate_server.fleet.keys import Position, Signer
from queuegate_server.sync.event_log import MAX_FORGOTTEN

SIGNER = Signer(b"s" * 32, "event")
POSITION = Position(b"e" * 16, 7, b"nonce")
CHANGE = Change.forget("default", ("sam", "eve"), is_awaited=True)


def fields(change: Change = CHANGE) -> dict[bytes, bytes]:
    content = encode_change(change)
    mac = SIGNER.mac(*event_parts(POSITION, b"before", content))
    return {b"id": POSITION.nonce, b"previous": b"before", b"event": content, b"mac": mac}


def test_an_event_is_read_as_it_was_written() -> None:
    event = decode_event(SIGNER, POSITION.epoch, 7, fields())
    assert (event.position, event.previous, event.change) == (POSITION, b"before", CHANGE)


@pytest.mark.parametrize("field", [b"id", b"previous", b"event", b"mac"])
def test_an_event_of_somebody_else_is_refused(field: bytes) -> None:
    for value in (b"", b"x", fields()[field] + b" "):
        with pytest.raises(Malformed):
            decode_event(SIGNER, POSITION.epoch, 7, fields() | {field: value})
    with pytest.raises(Malformed):
        decode_event(SIGNER, POSITION.epoch, 7, {k: v for k, v in fields().items() if k != field})


def test_an_event_cannot_be_moved_or_taken_to_another_fleet() -> None:
    for signer, epoch, sequence in (
        (SIGNER, POSITION.epoch, 8),
        (SIGNER, b"o" * 16, 7),
        (Signer(b"t" * 32, "event"), POSITION.epoch, 7),
        (Signer(b"s" * 32, "row"), POSITION.epoch, 7),
    ):
        with pytest.raises(Malformed):
            decode_event(signer, epoch, sequence, fields())


def test_many_users_are_all_users() -> None:
    many = [f"u{number}" for number in range(MAX_FORGOTTEN + 1)]
    assert Change.forget("default", many, is_awaited=False).users == frozenset()


def test_a_row_is_read_as_it_was_written_and_not_otherwise() -> None:
    row = Row("id", "a", 3, epoch="ee", sequence=4, settled=2, confirmed={"aa": ["gate"]})
    data = encode_row(SIGNER, row)
    assert decode_row(SIGNER, data) == row
    assert decode_row(SIGNER, encode_row(SIGNER, replace(row, settled=None))).settled is None
    for changed in (b"", data[:-1], data + b" ", b"x" * 40):
        with pytest.raises(Malformed):
            decode_row(SIGNER, changed)
    unknown = b'{"surprise":1}'
    with pytest.raises(Malformed):
        decode_row(SIGNER, SIGNER.mac(unknown) + unknown)
