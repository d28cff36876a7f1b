"""Decides which groups a caller keeps when it comes from another replica of the fleet."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.sync.event_log import StateChange


class FleetEvents(Protocol):
    """The events of a fleet, as far as this replica has applied them."""

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        """The newest event that was applied: its invalidations are in the event log of this server,
        but a reload may not have been carried out yet. None while groups of other replicas cannot
        be judged.
        """

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        """Return the changes by the events after one, and changes of this replica that are not
        applied as events yet; None if some might be missing.
        """


class KeptGroups(NamedTuple):
    """Groups that a caller holds and that may decide again."""

    partitions: Sequence[str]
    """The partitions whose groups these are."""
    events: Sequence[StateChange]
    """The changes that make some of them invalid."""


NOTHING_KEPT: Final = KeptGroups((), ())


def kept_groups(
    fleet_events: FleetEvents | None,
    request: sync_pb2.SyncOpen,
    fingerprints: Mapping[str, bytes],
) -> KeptGroups:
    """Return the groups that the caller may keep.

    What it holds was valid at its fleet cursor. It is still valid if this replica knows all events
    since then, none of them forgets the user, and both replicas use the same resolver settings.

    Args:
        fleet_events: The events of the fleet; None without one.
        request: The first message of the caller.
        fingerprints: The resolver fingerprint of each partition that the caller gets; empty if its
            groups are not shared.
    """
    held = {each.partition: each.resolver_fingerprint for each in request.held}
    kept = {
        name
        for name, fingerprint in fingerprints.items()
        if fingerprint and held.get(name) == fingerprint
    }
    if fleet_events is None or not request.HasField("fleet_cursor") or not kept:
        return NOTHING_KEPT
    events = fleet_events.since(request.fleet_cursor)
    if events is None:
        return NOTHING_KEPT
    return KeptGroups(sorted(kept), [event for event in events if event.partition in kept])
