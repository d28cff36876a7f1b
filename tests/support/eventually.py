"""Waits for the effects of another process."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], expected: T, seconds: float = 180) -> None:
    """Wait until the probe returns the expected value, or fail with the last value.

    The pause between two probes grows from 20 ms to 100 ms, since most probes are calls.
    """
    end, pause = time.monotonic() + seconds, 0.02
    while (actual := probe()) != expected:
        assert time.monotonic() < end, f"{actual!r} did not become {expected!r}"
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)
