"""Detect a server that is unresponsive or does not send a policy."""

from collections.abc import Iterable
from typing import Final

from queuegate.gate import bounds
from queuegate.v1 import sync_pb2

SILENCE: Final = 3.0
"""A stream is considered dead after this many seconds without a pong or a policy. Shorter than a
lease.
"""
WATCH_SECONDS: Final = 0.5
"""The interval between calls to `SilenceWatch.tick`, in seconds."""
_PROGRESS: Final = frozenset({"opened", "policy", "pong"})


class SilenceWatch:
    """Tracks when the server last responded. All times are from one monotonic clock."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """Create a watch. Call `restart` to start it.

        Args:
            named: The partitions to follow; all if empty.
        """
        self.lacks_policy = False
        """Whether this gate had no confirmed policy at the last pong, although the server has a
        policy for it. Such pongs do not count as progress.
        """
        self._named = frozenset(named)
        self._promised: set[str] = set()
        """The named partitions that exist on the server."""
        self._last_progress = 0.0
        self._last_pong = 0.0
        self._last_look = 0.0

    def restart(self, now: float) -> None:
        """Start watching a new stream."""
        self._last_progress = self._last_pong = self._last_look = now
        self.lacks_policy = False
        self._promised.clear()

    def note(self, response: sync_pb2.SyncResponse, now: float, *, has_policy: bool) -> None:
        """Record a message from the server.

        Args:
            response: The message.
            now: The current time.
            has_policy: Whether this gate has a confirmed policy.
        """
        kind = response.WhichOneof("message")
        if kind == "opened":
            self._promised = {*self._named.intersection(response.opened.partitions)}
        elif kind == "policy" and response.policy.removed:
            self._promised.discard(response.policy.partition)
        elif kind == "pong":
            is_owed = not self._named or bool(self._promised)
            self.lacks_policy = is_owed and not has_policy
            if self.lacks_policy:
                return
            self._last_pong = now
        if kind in _PROGRESS:
            self._last_progress = now

    def tick(self, now: float) -> None:
        """Account for delays in this process. Must be called every WATCH_SECONDS.

        A late call means that this process or its event loop was blocked and may have unread
        messages, so the delay does not count as silence.
        """
        late = now - self._last_look - WATCH_SECONDS
        self._last_look = now
        if late > WATCH_SECONDS:
            self._last_progress = min(now, self._last_progress + late)
            self._last_pong = min(now, self._last_pong + late)

    def fault(self, now: float) -> str:
        """Return why the stream is dead, or an empty string if it is alive."""
        # Policies alone are not enough: a server that never sends a pong never grants a lease.
        if now - self._last_pong > bounds.MAX_TRANSFER_SECONDS:
            seconds = bounds.MAX_TRANSFER_SECONDS
        elif now - self._last_progress > SILENCE:
            seconds = SILENCE
        else:
            return ""
        if self.lacks_policy:
            return f"the server responds to pings but has sent no complete policy for {seconds:g} s"
        return f"the server has not responded to a ping for {seconds:g} s"
