"""Whether this server knows of the changes that checks demand (`at_least`).

This is found out before a check is validated, because the change may be another policy, whose
snapshot then decides.
"""

from collections.abc import Awaitable, Callable, Collection

from queuegate.v1 import access_pb2
from queuegate_server.rpc.admission_queue import Slot
from queuegate_server.rpc.errors import NotCaughtUp

Change = tuple[bytes, int]
"""The epoch and the sequence of a change's cursor."""
HasSeen = Callable[[bytes, int], bool]
"""Returns whether this server knows of a change."""
CatchUp = Callable[[Collection[Change]], Awaitable[None]]
"""Waits a moment for changes."""


class Freshness:
    """Compares what checks demand with what this server knows of."""

    def __init__(self, has_seen: HasSeen | None = None, catch_up: CatchUp | None = None) -> None:
        """Keep what knows the changes.

        Args:
            has_seen: Returns whether this server knows of a change; None: it reports none.
            catch_up: Waits for changes; None: changes are not awaited.
        """
        self._has_seen = has_seen
        self._catch_up = catch_up

    @property
    def can_wait(self) -> bool:
        """Whether changes are awaited."""
        return self._catch_up is not None

    def missing(self, request: access_pb2.CheckQueueAccessRequest) -> Change | None:
        """Return the change that a check with `at_least` demands if it is not known."""
        change = request.at_least.epoch, request.at_least.sequence
        return None if self._has_seen is not None and self._has_seen(*change) else change

    async def ensure(
        self, request: access_pb2.CheckQueueAccessRequest, slot: Slot | None = None
    ) -> None:
        """Wait a moment for the change that a check with `at_least` demands.

        Args:
            request: The check.
            slot: The slot of the call if it has one, which is released meanwhile.

        Raises:
            NotCaughtUp: The change is still not known.
        """
        if (change := self.missing(request)) is not None:
            await self.catch_up([change], slot)
            if self.missing(request) is not None:
                raise NotCaughtUp(*change)

    async def catch_up(self, changes: Collection[Change], slot: Slot | None = None) -> None:
        """Wait a moment for changes, if they are awaited at all."""
        if self._catch_up is None:
            return
        if slot is not None:
            slot.release()
        await self._catch_up(changes)
        if slot is not None:
            await slot.reacquire()
