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
from queuegate_server.fleet.source_lease import SourceLease
from queuegate_server.fleet.stream import Stream
from queuegate_server.fleet.value_store import BatchingStore
from queuegate_server.settings.fleet import Fleet
from queuegate_server.sync.changes import LocalChanges


class FleetParts:
    """The parts of this process's replica.

    The session and the shared groups are built first, because caches and gates need them.
    """

    def __init__(
        self,
        fleet: Fleet,
        worker: int | None,
        clock: Callable[[], float],
        wall: Callable[[], float],
        role: str = "",
    ) -> None:
        """Build the session and the shared groups without connecting.

        `role` is `webhook`, or empty for a server. Each worker is a separate replica. Clocks return
        seconds; `clock` is the lease's.
        """
        for path in fleet.secrets:
            warn_of_mode(path, PUBLIC)
        name = fleet.replica_name if worker is None else f"{fleet.replica_name}/{worker}"
        self.session: Final = FleetSession(
            os.urandom(8).hex(), name, clock(), version=version("queuegate"), role=role
        )
        self.counts: Final = GroupCounts()
        self._fleet = fleet
        self._clock = clock
        self._wall = wall
        self._keys = Keys(fleet.prefix)
        self._secret = fleet.secret()
        self._refusals = Refusals()
        self._stream = Stream(self._connection(), self._keys, self._secret)
        # Groups and events use separate connections so that they do not delay each other.
        self.store: Final = BatchingStore(self._connection(), fleet.read_timeout)

    def groups(self, partition: str, resolver: str) -> PartitionGroups:
        """Return a partition's shared groups. `resolver` identifies its resolver's settings."""
        signer = Signer(self._secret, "groups")
        return PartitionGroups(
            self.store,
            ValueCodec(signer, self._keys, partition, resolver, self._wall),
            self.session.fence,
            self.session.lease,
            self.counts,
            self._clock,
        )

    def source_lease(self, source: Callable[[], str]) -> SourceLease:
        """Return the lease to follow a source; see `SourceLease`."""
        signer = Signer(self._secret, "source")
        return SourceLease(self._stream, self.session, signer, source)

    @property
    def shares_groups(self) -> bool:
        """Whether groups are being shared: Redis responds, and this replica follows events."""
        return self.store.is_available and self.session.fence.position is not None

    def join(self, local: LocalChanges) -> tuple[FleetMember, FleetChanges]:
        """Return the replica and its `Changes`. The replica joins the fleet when started."""
        member = FleetMember(self.session, self._stream, self._refusals, local, self._clock)
        return member, FleetChanges(member, local, self._clock)

    def _connection(self) -> StoreConnection:
        return StoreConnection(self._fleet, self._keys.tag, self._refusals)
