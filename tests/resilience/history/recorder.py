"""Writes histories down while they happen."""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.resilience.history.records import Acls, Confirmation, History, Kill, Lifetimes, Write


class Recorder:
    """The histories of the servers of a round, which read the same files: one after the other, or
    several as the replicas of a fleet.
    """

    def __init__(self, lifetimes: Lifetimes, workers: int, *, shares_groups: bool = False) -> None:
        self.policies: dict[str, Acls] = {}
        self.histories: list[History] = []
        self._lifetimes = lifetimes
        self._workers = workers
        self._shares_groups = shares_groups
        self._writes: list[Write] = []
        self._forgotten: list[Confirmation] = []

    def begin(self, begin: float) -> History:
        """Note that a server answers, which was started at some time. What a fleet has forgotten
        by now, none of its new replicas uses.
        """
        history = History(
            begin,
            self._lifetimes,
            self.policies,
            self._workers,
            shares_groups=self._shares_groups,
            writes=self._writes,
            confirmations=[*self._forgotten] if self._shares_groups else [],
        )
        self.histories.append(history)
        return history

    @contextmanager
    def write(self, register: str, value: object) -> Iterator[None]:
        """Note that the block writes a value."""
        start = time.monotonic()
        yield
        self._writes.append(Write(register, value, start, time.monotonic()))

    def forget(self, confirmations: Iterable[Confirmation]) -> None:
        """Note that a fleet has confirmed that it forgets groups."""
        self._forgotten += confirmations

    @staticmethod
    @contextmanager
    def kill(history: History) -> Iterator[None]:
        """Note that a worker is killed in the block, and gone at its end."""
        start = time.monotonic()
        yield
        history.kills.append(Kill(start, time.monotonic()))

    @staticmethod
    def stop(history: History) -> None:
        """Note that a server ends from now on; its workers may do so one after the other."""
        history.kills.append(Kill(time.monotonic(), math.inf))
