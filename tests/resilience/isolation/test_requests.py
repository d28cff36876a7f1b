"""Nobody takes the service from others by the most expensive request of each method, or by
requests that are refused.
"""

import itertools
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.promise import Observation, expect_isolation
from tests.support.generators.costly import LEGAL, REFUSED, Costly

CALLERS = 4
SECONDS = 2.0
EMPTY = tuple(name for name in REFUSED if "empty" in name or "small indexes" in name)
OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


def repeat(address: str, requests: Iterable[Costly], end: float) -> None:
    """Send the requests in turn, again and again, until a point in time."""
    with grpc.insecure_channel(address, OPTIONS) as channel:
        for method, message, _ in itertools.cycle(requests):
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            # A caller may be refused, and waits for its answer for no longer than the flood lasts.
            with suppress(grpc.RpcError):
                call(message, timeout=max(0.1, end - time.monotonic()), compression=GZIP)
            if time.monotonic() > end:
                return


GZIP = grpc.Compression.Gzip


def flood(address: str, *requests: Costly) -> None:
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(CALLERS) as pool:
        for calling in [pool.submit(repeat, address, requests, end) for _ in range(CALLERS)]:
            calling.result()


@pytest.mark.parametrize("request_", LEGAL.values(), ids=LEGAL)
def test_the_most_expensive_request(beside: Observation, record: Record, request_: Costly) -> None:
    expect_isolation(beside, record, lambda: flood(beside.server.address, request_))


def test_refused_requests(beside: Observation, record: Record) -> None:
    expect_isolation(beside, record, lambda: flood(beside.server.address, *REFUSED.values()))


@pytest.mark.parametrize("name", EMPTY)
def test_requests_of_empty_elements(beside: Observation, record: Record, name: str) -> None:
    """A few kilobytes of gzip are millions of elements."""
    expect_isolation(beside, record, lambda: flood(beside.server.address, REFUSED[name]))


def test_policies(beside: Observation, record: Record) -> None:
    """A hundred at once of a policy with 50,000 queues."""

    def ask() -> None:
        with grpc.insecure_channel(beside.server.address, OPTIONS) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                LEGAL["GetPolicy"].method
            )
            calls = [call.future(LEGAL["GetPolicy"].message, timeout=10) for _ in range(100)]
            for each in calls:
                with suppress(grpc.RpcError):
                    each.result()

    expect_isolation(beside, record, ask)
