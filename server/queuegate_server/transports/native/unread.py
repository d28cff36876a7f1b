"""Bounds the memory of long responses over the native transport that callers do not read.

`respond` does not report when a response has been written. A response therefore counts as
*unwritten* until the transport's metrics count its bytes, because it has been written or its
connection is closed. A peer is *stalled* if, by the kernel's count, it has not acknowledged all
bytes of its responses, and has acknowledged none since the last sweep.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.stalls import acknowledged_bytes

SHORT_RESPONSES: Final = frozenset(
    {
        "/grpc.health.v1.Health/Check",
        "/queuegate.v1.AccessService/CheckApplicationAccess",
        "/queuegate.v1.AccessService/CheckQueueAccess",
    }
)
"""Methods whose responses are not tracked."""
_MAX_PEERS: Final = 1_000
"""Closed connections are dropped once this many connections are tracked."""


class UnreadBytes:
    """Counts the unwritten bytes of long responses in a budget, and finds stalled peers."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.any_unwritten = asyncio.Event()
        """Set while any long response may be unwritten."""
        self._unwritten = 0
        self._total = 0
        """The bytes of all long responses, written and unwritten."""
        self._longest = 0
        """The size of the longest response so far. It never falls, so after a huge one, responses
        of cancelled calls may count as unwritten for longer: the budget is spent too early, not too
        late."""
        self._given: dict[str, int] = {}
        """The total bytes of long responses on each connection."""
        self._acknowledged: dict[str, int] = {}
        """The bytes acknowledged by each peer that has not acknowledged all, as of the last
        sweep."""

    def add(self, peer: str, size: int) -> None:
        """Count a long response of `size` bytes as unwritten."""
        self._budget.take(size)
        self.any_unwritten.set()
        self._unwritten += size
        self._total += size
        self._longest = max(self._longest, size)
        self._given[peer] = self._given.get(peer, 0) + size

    def update(self, metrics: Mapping[str, Any]) -> set[str]:
        """Release the bytes of written responses; return stalled peers if the budget is spent."""
        long = [each for name, each in metrics["methods"].items() if name not in SHORT_RESPONSES]
        ends = [end for each in long for end in each["status"].values()]
        written = sum(end["sent"]["sum"] for end in ends)
        # If a call is cancelled while its response is being written, the transport never counts the
        # response as written.
        open_calls = sum(each["started"] for each in long) - sum(end["count"] for end in ends)
        unwritten = min(self._total - written, open_calls * self._longest)
        self._budget.give_back(self._unwritten - unwritten)
        self._unwritten, self._total = unwritten, written + unwritten
        if not unwritten:
            self.any_unwritten.clear()
        return self._stalled_peers()

    def _stalled_peers(self) -> set[str]:
        """Return the peers that acknowledged nothing since the last time, if memory is short."""
        before, self._acknowledged = self._acknowledged, {}
        is_spent = self._budget.is_spent
        if not is_spent and len(self._given) < _MAX_PEERS:
            return set()
        acknowledged = acknowledged_bytes()
        self._given = {peer: size for peer, size in self._given.items() if peer in acknowledged}
        if not is_spent:
            return set()
        self._acknowledged = {
            peer: acknowledged[peer]
            for peer, size in self._given.items()
            if acknowledged[peer] < size
        }
        return {peer for peer, count in self._acknowledged.items() if before.get(peer) == count}
