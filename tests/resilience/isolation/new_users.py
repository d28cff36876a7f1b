"""Questions about users whom the server does not know yet."""

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import queuegate
from tests.resilience.invariants import Record

CALLERS = 16
SECONDS = 2.0
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: team, submitacl: " analytics"}
"""
QUEUES: Final = ("root.open", "root.team")
"""A queue that needs no groups, and one that needs them."""
NEWCOMERS: Final = 40
"""How many new users ask one after the other beside a flood."""
LOOKUP_TIMEOUT: Final = 5.0
"""How long a look-up waits for its turn by default, and how long it may then take, in seconds."""
MAX_WAIT: Final = 3 * LOOKUP_TIMEOUT
"""However busy the machine is, an answer that takes longer does not come from a bounded look-up."""


_NUMBERS = itertools.count()


def ask_about_new_users(address: str) -> None:
    """Let several callers ask about a new user each time, and ignore the answers."""
    end = time.monotonic() + SECONDS

    def ask() -> None:
        retry = queuegate.Retry(attempts=1)
        with queuegate.Client(address, timeout=SECONDS, retry=retry) as client:
            while time.monotonic() < end:
                with suppress(queuegate.QueuegateError):
                    client.check(f"u{next(_NUMBERS)}", "root.team")

    with ThreadPoolExecutor(CALLERS) as pool:
        for asking in [pool.submit(ask) for _ in range(CALLERS)]:
            asking.result()


def expect_newcomers_to_wait(
    address: str, record: Record, names: Iterable[str], partition: str = "default"
) -> Counter[str]:
    """Ask about new users, none of whom is in root.team, while others ask about many more.

    Expect each answer to be right, or an error in time; return how many there were of each kind.
    """
    latencies, outcomes = list[float](), Counter[str]()
    retry = queuegate.Retry(attempts=1)
    with (
        ThreadPoolExecutor(1) as pool,
        queuegate.Client(address, timeout=MAX_WAIT, retry=retry) as client,
    ):
        flood = pool.submit(ask_about_new_users, address)
        for name in names:
            if flood.done():
                break
            start = time.monotonic()
            try:
                decision = client.check(name, "root.team", partition=partition)
                outcomes["wrong" if decision.allowed else "answered"] += 1
            except queuegate.QueuegateError as error:
                outcomes[type(error).__name__] += 1
            latencies.append(time.monotonic() - start)
        flood.result()
    median, longest = statistics.median(latencies), max(latencies)
    record("new users", f"median {median:.2f} s, longest wait {longest:.2f} s, {dict(outcomes)}")
    assert outcomes["wrong"] == 0
    assert longest < MAX_WAIT
    return outcomes
