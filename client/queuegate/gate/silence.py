"""Detects that the server of a stream has fallen silent or sends no policy."""

from collections.abc import Iterable
from typing import Final

from queuegate.gate import bounds
from queuegate.v1 import sync_pb2

SILENCE: Final = 3.0
"""A stream is considered dead after this many seconds without a pong or a policy, before the lease
ends: the server hangs or accepts no messages."""
WATCH_SECONDS: Final = 0.5
"""How often to look for dead streams."""
_PROGRESS: Final = frozenset({"opened", "policy", "pong"})


class SilenceWatch:
    """Knows when a server was last heard from. All times come from one monotonic clock."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        """Start before the first stream.

        Args:
            named: The partitions to follow; all if empty.
        """
        self.lacks_policy = False
        """Whether the server answered a ping before sending any complete policy, although it has
        one for this gate. Such pongs do not count."""
        self._named = frozenset(named)
        self._promised: set[str] = set()
        """The named partitions that the server has."""
        self._last_progress = 0.0
        self._last_pong = 0.0
        self._last_look = 0.0

    def restart(self, now: float) -> None:
        """Note that a stream is being opened."""
        self._last_progress = self._last_pong = self._last_look = now
        self.lacks_policy = False
        self._promised.clear()

    def note(self, response: sync_pb2.SyncResponse, now: float, *, has_policy: bool) -> None:
        """Note a message from the server.

        Args:
            response: The message.
            now: The time.
            has_policy: Whether this gate has a policy that the server has confirmed.
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

    def look(self, now: float) -> None:
        """Account for delays in this process. Called every WATCH_SECONDS.

        A late call shows that this process or its event loop was held up, so answers from the
        server may be waiting to be read. That time does not count as silence.
        """
        late = now - self._last_look - WATCH_SECONDS
        self._last_look = now
        if late > WATCH_SECONDS:
            self._last_progress = min(now, self._last_progress + late)
            self._last_pong = min(now, self._last_pong + late)

    def fault(self, now: float) -> str:
        """Return why to give up on the server; empty if there is no reason to."""
        # Policies take time to send, but a server that keeps sending them forever is useless.
        if now - self._last_pong > bounds.MAX_TRANSFER_SECONDS:
            seconds = bounds.MAX_TRANSFER_SECONDS
        elif now - self._last_progress > SILENCE:
            seconds = SILENCE
        else:
            return ""
        if self.lacks_policy:
            return f"the server answers pings, but has sent no complete policy for {seconds:g} s"
        return f"the server has not answered a ping for {seconds:g} s"
