"""Whether the server of a stream has fallen silent."""

from typing import Final

from queuegate.gate import bounds
from queuegate.v1 import sync_pb2

SILENCE: Final = 3.0
"""After as many seconds without a pong or a policy a stream is taken for dead, before the lease
ends: the server hangs, or takes no messages."""
WATCH_SECONDS: Final = 0.5
"""How often to look for dead streams."""
_PROGRESS: Final = frozenset({"opened", "policy", "pong"})


class SilenceWatch:
    """Knows when a server was last heard. Times are those of one monotonic clock."""

    def __init__(self) -> None:
        """Start before the first stream."""
        self._last_progress = 0.0
        self._last_pong = 0.0
        self._last_look = 0.0

    def restart(self, now: float) -> None:
        """Note that a stream is opened."""
        self._last_progress = self._last_pong = self._last_look = now

    def note(self, response: sync_pb2.SyncResponse, now: float) -> None:
        """Note a message of the server."""
        if response.WhichOneof("message") in _PROGRESS:
            self._last_progress = now
        if response.HasField("pong"):
            self._last_pong = now

    def look(self, now: float) -> None:
        """Note that it is time to look. Called every WATCH_SECONDS.

        A call that comes late shows that this process was held up, or its event loop: answers of
        the server may wait to be read. That time does not count as silence.
        """
        late = now - self._last_look - WATCH_SECONDS
        self._last_look = now
        if late > WATCH_SECONDS:
            self._last_progress = min(now, self._last_progress + late)
            self._last_pong = min(now, self._last_pong + late)

    def silence(self, now: float) -> float:
        """Return how long, in seconds, no ping was answered if that is too long; otherwise 0."""
        # Policies take their time; but a server that sends them without end is of no use.
        if now - self._last_pong > bounds.MAX_TRANSFER_SECONDS:
            return bounds.MAX_TRANSFER_SECONDS
        return SILENCE if now - self._last_progress > SILENCE else 0.0
