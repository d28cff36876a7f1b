"""What a replica reports about the changes that it has confirmed."""

from collections.abc import Sequence

from queuegate_server.fleet.barrier import LEASES_TIMEOUT
from queuegate_server.fleet.confirmations import CONFIRMED_SECONDS, MAX_NAMED
from queuegate_server.fleet.events import (
    MAX_STATUS_BYTES,
    ReplicaStatus,
    decode_status,
    encode_status,
)
from queuegate_server.fleet.keys import LogPosition, Signer
from queuegate_server.fleet.session import STARTING_SECONDS, FleetSession
from queuegate_server.fleet.steps import OwnState
from queuegate_server.sync.barrier import StaleGate, Unconfirmed
from queuegate_server.sync.connected import (
    MAX_LISTED,
    MAX_LISTED_BYTES,
    ConnectedGate,
    GateCounts,
)
from tests.support.fakes.clock import ManualClock


class Reporter:
    """A replica that follows nothing."""

    def __init__(self, clock: ManualClock) -> None:
        self.session = FleetSession("id", "a", clock(), version="1")
        self.confirmations = self.session.confirmations
        self._clock = clock

    @property
    def status(self) -> ReplicaStatus:
        return self.session.status(self._clock(), OwnState())

    def next_status(self) -> ReplicaStatus:
        return self.session.heartbeat(self._clock(), OwnState()).status

    def confirm(
        self,
        nonce: bytes,
        waited_out: Sequence[str],
        stale: Sequence[StaleGate] = (),
        *,
        has_failed: bool = False,
    ) -> None:
        unconfirmed = Unconfirmed(waited_out, stale)
        self.confirmations.add(nonce, unconfirmed, self._clock(), has_failed=has_failed)


def report(clock: ManualClock) -> Reporter:
    return Reporter(clock)


def gate_with_a_long_name() -> ConnectedGate:
    """Return one of MAX_LISTED gates that fill the list in a status."""
    name = "n" * (MAX_LISTED_BYTES // MAX_LISTED - 100)
    return ConnectedGate(name, "token:a", "agent", 2**64 - 1, GateCounts(2**64 - 1, 0, None))


def nonce(number: int) -> bytes:
    return number.to_bytes(8)


def test_a_replica_is_starting_until_it_follows_or_for_too_long() -> None:
    clock = ManualClock(100.0)
    one = report(clock)
    assert one.status.is_starting
    clock.advance(STARTING_SECONDS)
    assert not one.status.is_starting


def test_confirmations_stay_while_somebody_may_wait_for_them() -> None:
    clock = ManualClock(100.0)
    one = report(clock)
    for number in range(1_000):
        one.confirm(nonce(number), [])
    clock.advance(LEASES_TIMEOUT + 1)
    assert len(one.next_status().confirmed) == 1_000
    one.confirm(nonce(1_000), [])
    clock.advance(CONFIRMED_SECONDS - LEASES_TIMEOUT - 1)
    assert [*one.next_status().confirmed] == [nonce(1_000).hex()]


def test_a_row_with_many_confirmations_can_be_read_and_has_the_newest() -> None:
    one = report(ManualClock(100.0))
    gates = [f'gate "{number}" \N{SNOWMAN}' for number in range(MAX_NAMED + 5)]
    stale = [StaleGate(gate, float(number)) for number, gate in enumerate(gates)]
    for number in range(10_000):
        is_odd = number % 2 == 1
        names, away = (gates, stale) if number % 100 == 0 else ([], [])
        one.confirm(nonce(number), names, away, has_failed=is_odd)
        if number % 500 == 0:
            one.next_status()
    status = one.next_status()
    assert nonce(9_999).hex() in status.confirmed
    assert nonce(9_999).hex() in status.failed
    assert nonce(0).hex() not in status.confirmed
    assert set(status.failed) <= set(status.confirmed)
    assert set(status.stale) <= set(status.confirmed)
    assert status.stale[nonce(9_900).hex()][0] == stale[-1], "the longest times first"
    assert status.stale[nonce(9_900).hex()][-1] == StaleGate("5 more", 4.0)
    own = OwnState(connected_gates=[gate_with_a_long_name()] * MAX_LISTED)
    status = one.session.status(100.0, own)
    signer = Signer(b"s", "status")
    assert decode_status(signer, encode_status(signer, status)).stale == status.stale
    assert (
        MAX_STATUS_BYTES / 2 < len(encode_status(Signer(b"s", "status"), status)) < MAX_STATUS_BYTES
    )


def test_after_the_order_is_lost_nothing_is_confirmed() -> None:
    one = report(ManualClock(100.0))
    one.confirm(nonce(1), ["gate"], has_failed=True)
    one.confirmations.add_through(LogPosition(b"e" * 16, 7, b"nonce"))
    one.session.lease.end()
    status = one.next_status()
    assert (status.confirmed, status.failed, status.confirmed_through) == ({}, [], None)
