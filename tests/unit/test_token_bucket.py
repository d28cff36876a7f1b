"""The token bucket: a rate in the long run, and a burst after a pause."""

import pytest

from queuegate_server.throttling.token_bucket import TokenBucket
from tests.support.fakes.clock import ManualClock


def test_a_burst_and_then_one_after_the_other() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.acquire() for _ in range(4)] == [True, True, True, False]
    assert bucket.wait() == pytest.approx(0.1)
    clock.advance(0.101)
    assert [bucket.acquire() for _ in range(2)] == [True, False]


def test_a_pause_fills_the_bucket_and_no_more() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 3, clock)
    clock.advance(3600)
    assert sum(bucket.acquire() for _ in range(100)) == 3


@pytest.mark.parametrize("rate", [0.5, 10, 1_000])
def test_the_rate_holds_in_the_long_run(rate: float) -> None:
    clock = ManualClock()
    bucket = TokenBucket(rate, 8, clock)
    acquired = 0
    for _ in range(20_000):
        clock.advance(0.005)
        while bucket.acquire():
            acquired += 1
    assert acquired == pytest.approx(100 * rate, abs=8, rel=0.01)


def test_charges_beyond_the_burst_are_waited_for() -> None:
    bucket = TokenBucket(10, 1, ManualClock())
    for _ in range(5):
        bucket.charge()
    assert bucket.wait() == pytest.approx(0.5)
