"""What a replica reports about the changes that it has confirmed."""

from typing import Any, cast

from queuegate_server.engine import NotReady
from queuegate_server.fleet.barrier import HOLDS, Peers
from queuegate_server.fleet.events import MAX_ROW_BYTES, encode_row
from queuegate_server.fleet.keys import Signer
from queuegate_server.fleet.replica import ReplicaState
from queuegate_server.fleet.report import CONFIRMED_SECONDS, MAX_NAMED, Report
from tests.support.fakes.clock import ManualClock


class NoPolicy:
    @property
    def snapshot(self) -> Any:
        raise NotReady


class NoGates:
    streams = 0


def report(clock: ManualClock) -> Report:
    return Report(
        *(Peers("id", "a"), "a", ReplicaState()),
        version="1",
        engine=cast("Any", NoPolicy()),
        hub=cast("Any", NoGates()),
        clock=clock,
    )


def nonce(number: int) -> bytes:
    return number.to_bytes(8)


def test_confirmations_stay_while_somebody_may_wait_for_them() -> None:
    clock = ManualClock(100.0)
    one = report(clock)
    for number in range(1_000):
        one.confirm(nonce(number), [])
    clock.advance(HOLDS + 1)
    assert len(one.next_row().confirmed) == 1_000
    one.confirm(nonce(1_000), [])
    clock.advance(CONFIRMED_SECONDS - HOLDS - 1)
    assert [*one.next_row().confirmed] == [nonce(1_000).hex()]


def test_a_row_with_many_confirmations_can_be_read_and_has_the_newest() -> None:
    one = report(ManualClock(100.0))
    gates = [f'gate "{number}" \N{SNOWMAN}' for number in range(MAX_NAMED + 5)]
    for number in range(10_000):
        is_odd = number % 2 == 1
        one.confirm(nonce(number), gates if number % 100 == 0 else [], is_refused=is_odd)
        if number % 500 == 0:
            one.next_row()
    row = one.next_row()
    assert nonce(9_999).hex() in row.confirmed
    assert nonce(9_999).hex() in row.refused
    assert nonce(0).hex() not in row.confirmed
    assert set(row.refused) <= set(row.confirmed)
    assert MAX_ROW_BYTES / 2 < len(encode_row(Signer(b"s", "row"), row)) < MAX_ROW_BYTES


def test_after_the_order_is_lost_nothing_is_confirmed() -> None:
    one = report(ManualClock(100.0))
    one.confirm(nonce(1), ["gate"], is_refused=True)
    one.settle(7)
    one.start_over()
    row = one.next_row()
    assert (row.confirmed, row.refused, row.settled) == ({}, [], None)
