"""A replica's view of the order of a fleet's events, and a store of values in memory."""

import asyncio
from collections.abc import Callable

from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.shared_groups import ValueUnavailable


class FakeOrder:
    """Events that a test makes this replica execute. Each invalidates a user, or all (None)."""

    def __init__(self, epoch: bytes = b"epoch") -> None:
        self.epoch = epoch
        self.known = True
        self.forgotten: list[tuple[str, str | None]] = []

    @property
    def position(self) -> LogPosition | None:
        return self._at(len(self.forgotten)) if self.known else None

    def forget(self, partition: str, user: str | None = None) -> None:
        self.forgotten.append((partition, user))

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        is_known = since.sequence <= len(self.forgotten) and since == self._at(since.sequence)
        later = self.forgotten[since.sequence :]
        return is_known and not {(partition, user), (partition, None)} & {*later}

    def _at(self, sequence: int) -> LogPosition:
        nonce = repr(self.forgotten[:sequence]).encode()
        return LogPosition(self.epoch, sequence, nonce)


class MemoryStore:
    """Values that replicas share immediately."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.lifetimes: dict[str, float] = {}
        self.available = True
        self.reads = 0
        self._claimed_until: dict[str, float] = {}

    async def get(self, key: str) -> bytes | None:
        self.reads += 1
        if not self.available:
            raise ValueUnavailable
        return self.values.get(key)

    async def lock(self, key: str, seconds: float) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._claimed_until.get(key, now):
            return False
        self._claimed_until[key] = now + seconds
        return True

    def put(self, key: str, make: Callable[[], bytes | None], seconds: float) -> None:
        value = make()
        if value is not None:
            self.values[key] = value
            self.lifetimes[key] = seconds
