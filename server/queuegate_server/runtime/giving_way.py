"""Lets a thread that parses a large document take turns with the rest of the process.

Beside a thread that computes, each turn of the event loop waits for the interpreter for 5 ms
(`sys.getswitchinterval`), and gRPC takes its calls one after the other, each in a turn. So at
times fewer than 200 calls a second got in while a policy was read, whatever else the processor
could have done, and the others waited until the end, some for more than a second. A smaller
interval moves that bound; a thread that sleeps for as long as it works removes it.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

_WORK: Final = 0.002
"""Seconds, also in which others wait for the interpreter."""
_LONGEST_SLEEP: Final = 0.05
"""One step in C may take longer than the turn, and the machine may stand still."""


class _Turn(threading.local):
    began: float | None = None
    """When this thread began to work; None if it takes no turns."""


_TURN: Final = _Turn()


@contextmanager
def taking_turns() -> Iterator[None]:
    """Make this thread sleep meanwhile for as long as it works, wherever it gives way. Not for
    the thread of an event loop, and not one within another.
    """
    _TURN.began = time.monotonic()
    try:
        yield
    finally:
        _TURN.began = None


def give_way() -> None:
    """Sleep if this thread takes turns and its turn is over. Whatever goes through a whole
    document calls it for each part of it.
    """
    if _TURN.began is None:
        return
    worked = time.monotonic() - _TURN.began
    if worked >= _WORK:
        time.sleep(min(worked, _LONGEST_SLEEP))
        _TURN.began = time.monotonic()


def in_turns(parts: Iterable[T]) -> Iterable[T]:
    """Return the parts, so that this thread gives way before each if it takes turns."""
    return parts if _TURN.began is None else _giving_way(parts)


def _giving_way(parts: Iterable[T]) -> Iterator[T]:
    for part in parts:
        give_way()
        yield part
