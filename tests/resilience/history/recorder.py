"""Writes a history down while it happens."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.resilience.history.records import Acls, Confirmation, History, Kill, Lifetimes, Write


class Recorder:
    """The histories of the servers of a round, one after the other, which read the same files."""

    def __init__(self, lifetimes: Lifetimes, workers: int) -> None:
        self.policies: dict[str, Acls] = {}
        self.histories: list[History] = []
        self._lifetimes = lifetimes
        self._workers = workers
        self._writes: list[Write] = []

    @property
    def now(self) -> History:
        """The history of the server that runs."""
        return self.histories[-1]

    def begin(self) -> None:
        """Note that a server is about to be started."""
        self.histories.append(
            History(
                time.monotonic(),
                self._lifetimes,
                self.policies,
                self._workers,
                writes=self._writes,
            )
        )

    @contextmanager
    def write(self, register: str, value: object) -> Iterator[None]:
        """Note that the block writes a value."""
        start = time.monotonic()
        yield
        self._writes.append(Write(register, value, start, time.monotonic()))

    @contextmanager
    def confirmation(self, *names: str) -> Iterator[None]:
        """Note that the server confirms in the block that it uses what registers hold. A block
        that raises has confirmed nothing.
        """
        history, start = self.now, time.monotonic()
        yield
        end = time.monotonic()
        history.confirmations += [Confirmation(name, start, end) for name in names]

    @contextmanager
    def kill(self) -> Iterator[None]:
        """Note that a worker is killed in the block, and gone at its end."""
        history, start = self.now, time.monotonic()
        yield
        history.kills.append(Kill(start, time.monotonic()))

    def stop(self) -> None:
        """Note that the server ends from now on; its workers may do so one after the other."""
        self.now.kills.append(Kill(time.monotonic(), math.inf))
