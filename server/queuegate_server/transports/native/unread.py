"""Tracks the native transport's long responses that callers have not read.

`respond` does not report when a response has been written. So this module uses the transport's
metrics, which count a response's bytes once it is written or its connection is closed, and the
kernel's count of acknowledged bytes.
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
    """Counts the bytes of long responses that have not been written."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._unread = self._answered = self._longest = 0
        self.any = asyncio.Event()
        """Set while any response may be unread."""
        self._given: dict[str, int] = {}
        """The total bytes of long responses on each connection."""
        self._stalled: dict[str, int] = {}
        """The bytes acknowledged by each peer with unread responses, as of the last sweep."""

    def add(self, peer: str, size: int) -> None:
        """Count a long response of `size` bytes as unwritten."""
        self._budget.take(size)
        self.any.set()
        self._unread += size
        self._answered += size
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
        unread = min(self._answered - written, open_calls * self._longest)
        self._budget.give_back(self._unread - unread)
        self._unread, self._answered = unread, written + unread
        if not unread:
            self.any.clear()
        before, self._stalled = self._stalled, {}
        is_spent = self._budget.is_spent
        if not is_spent and len(self._given) < _MAX_PEERS:
            return set()
        read = acknowledged_bytes()
        self._given = {peer: size for peer, size in self._given.items() if peer in read}
        if is_spent:
            self._stalled = {
                peer: read[peer] for peer, size in self._given.items() if read[peer] < size
            }
        return {peer for peer, count in self._stalled.items() if before.get(peer) == count}
