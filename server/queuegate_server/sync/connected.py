"""The gates that are connected to a server, for display."""

import json
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, NamedTuple

from queuegate_server.sync.session import Session

MAX_LISTED: Final = 20
"""The maximum number of gates that a server lists."""
MAX_LISTED_BYTES: Final = 8 * 1024
"""The maximum size of this list in JSON. It is part of a replica's status in Redis."""


class GateCounts(NamedTuple):
    """What a gate says that it has decided since it started."""

    decided: int
    """The number of decisions in its process."""
    stale: int
    """The number of these that it made without a lease."""
    fallbacks: int | None
    """The number of questions that its caller's fallback decided; None without a fallback."""


class ConnectedGate(NamedTuple):
    """A gate. It chooses all but the caller itself, so this is for display only."""

    name: str
    caller: str
    """The name of the authenticated caller."""
    agent: str
    """Its program and version."""
    stale_millis: int
    """How long it may decide from its last state while it reaches no server."""
    counts: GateCounts | None = None


def gate_counts(session: Session) -> GateCounts | None:
    """Return a gate's latest counts; None if it has sent none."""
    sent = session.counts
    if sent is None:
        return None
    return GateCounts(
        sent.decided, sent.stale, sent.fallbacks if sent.HasField("fallbacks") else None
    )


def connected_gates(sessions: Iterable[Session]) -> list[ConnectedGate]:
    """Return a server's gates, first those with a fallback, then by name. Long lists are cut."""
    gates = [
        ConnectedGate(each.name, each.caller, each.agent, each.stale_millis, gate_counts(each))
        for each in nsmallest(MAX_LISTED, sessions, key=_order)
    ]
    size = 0
    for number, gate in enumerate(gates):
        size += len(json.dumps(gate))
        if size > MAX_LISTED_BYTES:
            return gates[:number]
    return gates


def _order(session: Session) -> tuple[bool, str, str]:
    has_fallback = session.counts is not None and session.counts.HasField("fallbacks")
    return not has_fallback, session.name, session.caller
