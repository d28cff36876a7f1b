"""Which groups a caller may keep that another replica of the fleet has sent to it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.sync.event_log import Event


class FleetEvents(Protocol):
    """The changes of a fleet, as far as this replica has carried them out."""

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        """The newest of these changes: the event log of this replica has it and all before it. None
        while the fleet is not followed.
        """

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[Event] | None:
        """Return the changes after one, and those of this replica that the fleet may not know yet;
        None if some might be missing.
        """


class KeptGroups(NamedTuple):
    """Groups that a caller holds and that may decide again."""

    partitions: Sequence[str]
    """The partitions whose groups these are."""
    events: Sequence[Event]
    """The changes that make some of them invalid."""


NO_GROUPS: Final = KeptGroups((), ())


def kept_groups(
    fleet: FleetEvents | None, request: sync_pb2.SyncOpen, sources: Mapping[str, bytes]
) -> KeptGroups:
    """Return which groups the caller may keep.

    They are valid at the caller's position in the changes of the fleet. So they are still valid if
    all changes since then are known, none of them forgets the user, and this replica would have
    looked them up in the same place.

    Args:
        fleet: The changes of the fleet; None without one.
        request: What the caller holds.
        sources: Where the groups of the partitions that the caller gets come from; empty for groups
            that are not shared.
    """
    events = None
    if fleet is not None and request.HasField("fleet_cursor"):
        events = fleet.since(request.fleet_cursor)
    if events is None:
        return NO_GROUPS
    held = {each.partition: each.groups_source for each in request.held}
    kept = {name for name, source in sources.items() if source and held.get(name) == source}
    return KeptGroups(sorted(kept), [event for event in events if event.partition in kept])
