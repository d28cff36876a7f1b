"""Builds this process's replica from the settings, without starting it."""

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.fleet.changes import FleetChanges
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.keys import Keys, Signer
from queuegate_server.fleet.member import FleetMember
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.shared_groups import GroupCounts, PartitionGroups, ValueCodec
from queuegate_server.fleet.stream import Stream
from queuegate_server.fleet.value_store import BatchingStore
from queuegate_server.settings.fleet import Fleet
from queuegate_server.sync.changes import LocalChanges


class GroupSharing:
    """The shared groups of all partitions."""

    def __init__(
        self,
        fleet: Fleet,
        session: FleetSession,
        refusals: Refusals,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Create the store without connecting. Clocks return seconds; `clock` is the lease's."""
        for path in fleet.secrets:
            warn_of_mode(path, PUBLIC)
        self._keys = Keys(fleet.prefix)
        # Groups and events use separate connections so that they do not delay each other.
        connection = StoreConnection(fleet, self._keys.tag, refusals)
        self.store: Final = BatchingStore(connection, fleet.read_timeout)
        self.counts: Final = GroupCounts()
        self._signer = Signer(fleet.secret(), "groups")
        self._session = session
        self._clock = clock
        self._wall = wall

    def of_partition(self, partition: str, resolver: str) -> PartitionGroups:
        """Return a partition's shared groups. `resolver` identifies its resolver's settings."""
        return PartitionGroups(
            self.store,
            ValueCodec(self._signer, self._keys, partition, resolver, self._wall),
            self._session.fence,
            self._session.lease,
            self.counts,
            self._clock,
        )

    @property
    def is_active(self) -> bool:
        """Whether groups are being shared: Redis responds, and this replica follows events."""
        return self.store.is_available and self._session.fence.position is not None


class FleetBuilder:
    """Builds the session first, because caches and gates need it, and the replica later."""

    def __init__(
        self,
        fleet: Fleet,
        worker: int | None,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Build the session and the shared groups. Each worker is a separate replica."""
        name = fleet.replica_name if worker is None else f"{fleet.replica_name}/{worker}"
        self.session: Final = FleetSession(
            os.urandom(8).hex(), name, clock(), version=version("queuegate")
        )
        self._refusals = Refusals()
        self.sharing: Final = GroupSharing(
            fleet, self.session, self._refusals, clock=clock, wall=wall
        )
        self._fleet = fleet
        self._clock = clock

    def join(self, local: LocalChanges) -> tuple[FleetMember, FleetChanges]:
        """Return the replica and its `Changes`. The replica joins the fleet when started."""
        keys = Keys(self._fleet.prefix)
        connection = StoreConnection(self._fleet, keys.tag, self._refusals)
        stream = Stream(connection, keys, self._fleet.secret())
        member = FleetMember(self.session, stream, self._refusals, local, self._clock)
        return member, FleetChanges(member, local, self._clock)
