"""Waiting for what another process does."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], expected: T, seconds: float = 60) -> None:
    """Wait until the probe gives what is expected; fail with what it gives instead."""
    end = time.monotonic() + seconds
    while (found := probe()) != expected:
        assert time.monotonic() < end, f"{found!r} did not become {expected!r}"
        time.sleep(0.02)
