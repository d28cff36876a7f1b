"""The gates that are connected to a server, for display."""

import json
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, NamedTuple

MAX_LISTED: Final = 20
"""The maximum number of gates that a server lists."""
MAX_LISTED_BYTES: Final = 8 * 1024
"""The maximum size of this list in JSON. It is part of a replica's status in Redis."""


class GateCounts(NamedTuple):
    """What a gate has decided since it started, as reported by the gate."""

    decided: int
    """The number of decisions in its process."""
    stale: int
    """How many of these decisions it made without a lease."""
    fallbacks: int | None
    """The number of questions that its caller's fallback decided; None without a fallback."""


class ConnectedGate(NamedTuple):
    """A connected gate. All fields except `caller` are the gate's own claims; no decision depends
    on them.
    """

    name: str = ""
    caller: str = ""
    """The name of the authenticated caller."""
    agent: str = ""
    """Its program and version."""
    stale_millis: int = 0
    """How long it may decide from its last state while no server is reachable."""
    counts: GateCounts | None = None
    """Its latest counts; None if it has sent none."""


def listed(gates: Iterable[ConnectedGate]) -> list[ConnectedGate]:
    """Return some gates, those with a fallback first, then by name."""
    rows = nsmallest(MAX_LISTED, gates, key=_order)
    size = 0
    for number, gate in enumerate(rows):
        size += len(json.dumps(gate))
        if size > MAX_LISTED_BYTES:
            return rows[:number]
    return rows


def _order(gate: ConnectedGate) -> tuple[bool, str, str]:
    has_fallback = gate.counts is not None and gate.counts.fallbacks is not None
    return not has_fallback, gate.name, gate.caller
