"""Whether this server knows of the changes that checks demand (`at_least`).

A check waits for its change before it is validated, because the change may be another policy, whose
snapshot then decides.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from queuegate.v1 import access_pb2
from queuegate_server.rpc.admission_queue import Slot
from queuegate_server.rpc.errors import NotCaughtUp

Change = tuple[bytes, int]
"""The epoch and the sequence of a change's cursor."""
HasSeen = Callable[[bytes, int], bool]
CatchUp = Callable[[Collection[Change]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Freshness:
    """Compares what checks demand with what this server knows of."""

    has_seen: HasSeen = lambda _epoch, _sequence: False
    """Returns whether this server knows of a change."""
    follow: CatchUp | None = None
    """Waits a moment for changes; None if this server is alone."""

    def missing(self, request: access_pb2.CheckQueueAccessRequest) -> Change | None:
        """Return the change that a check with `at_least` demands, unless it is known."""
        change = request.at_least.epoch, request.at_least.sequence
        return None if self.has_seen(*change) else change

    async def ensure(
        self, request: access_pb2.CheckQueueAccessRequest, slot: Slot | None = None
    ) -> None:
        """Wait a moment for the change that a check with `at_least` demands, without the slot.

        Raises NotCaughtUp if the change is still not known.
        """
        if (change := self.missing(request)) is not None:
            await self.catch_up([change], slot)
            if self.missing(request) is not None:
                raise NotCaughtUp(*change)

    async def catch_up(self, changes: Collection[Change], slot: Slot | None = None) -> bool:
        """Wait a moment for changes; return whether there was anything to wait for."""
        if self.follow is None:
            return False
        if slot is not None:
            slot.release()
        await self.follow(changes)
        if slot is not None:
            await slot.reacquire()
        return True
