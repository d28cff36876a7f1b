"""Waits for the changes required by checks (`at_least`).

A check waits before it is validated, because the change may replace the policy.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from queuegate.v1 import access_pb2
from queuegate_server.rpc.errors import NotCaughtUp
from queuegate_server.rpc.load_shedding import Slot

Change = tuple[bytes, int]
"""The epoch and sequence of a change's cursor."""
ChangePredicate = Callable[[bytes, int], bool]
ChangeWaiter = Callable[[Collection[Change]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Freshness:
    """Waits until this server has applied the changes required by checks."""

    has_seen: ChangePredicate = lambda _epoch, _sequence: False
    """Returns whether this server has applied the change with the given epoch and sequence."""
    follow: ChangeWaiter | None = None
    """Waits briefly for the given changes; None without a fleet."""

    def missing(self, request: access_pb2.CheckQueueAccessRequest) -> Change | None:
        """Return the change required by `at_least`; None if it has been applied."""
        change = request.at_least.epoch, request.at_least.sequence
        return None if self.has_seen(*change) else change

    async def ensure(
        self, request: access_pb2.CheckQueueAccessRequest, slot: Slot | None = None
    ) -> None:
        """Wait for the change required by `at_least`. Raises NotCaughtUp if it does not arrive."""
        if (change := self.missing(request)) is not None:
            await self.catch_up([change], slot)
            if self.missing(request) is not None:
                raise NotCaughtUp

    async def catch_up(self, changes: Collection[Change], slot: Slot | None = None) -> bool:
        """Wait briefly for changes without holding the slot. Without a fleet, just return False."""
        if self.follow is None:
            return False
        if slot is not None:
            slot.release()
        await self.follow(changes)
        if slot is not None:
            await slot.reacquire()
        return True
