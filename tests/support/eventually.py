"""Waits for the effects of another process."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], expected: T, seconds: float = 60) -> None:
    """Wait until the probe returns the expected value, or fail with the last value."""
    end = time.monotonic() + seconds
    while (found := probe()) != expected:
        assert time.monotonic() < end, f"{found!r} did not become {expected!r}"
        time.sleep(0.02)
