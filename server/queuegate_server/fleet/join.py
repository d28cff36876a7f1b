"""Builds this process's part of a fleet from the settings. Nothing runs yet."""

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from queuegate_server.engine import Engine
from queuegate_server.fleet.changes import FleetChanges
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.keys import Keys
from queuegate_server.fleet.member import FleetMember
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.sharing import GroupSharing
from queuegate_server.fleet.stream import Stream
from queuegate_server.settings.fleet import Fleet
from queuegate_server.sync.changes import LocalChanges
from queuegate_server.sync.hub import SyncHub


class FleetBuilder:
    """First builds what caches and gates refer to, then the replica around them."""

    def __init__(
        self,
        fleet: Fleet,
        worker: int | None,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Build the session and the shared groups.

        Args:
            fleet: The settings, with a URL.
            worker: The number of the worker, each of which is a replica; None if there is one
                process.
            clock: The clock of the leases, in seconds.
            wall: The wall clock, in seconds.
        """
        name = fleet.replica_name if worker is None else f"{fleet.replica_name}/{worker}"
        self.session: Final = FleetSession(
            os.urandom(8).hex(), name, clock(), version=version("queuegate")
        )
        self._refusals = Refusals()
        self.sharing: Final = GroupSharing(
            *(fleet, self.session, self._refusals), clock=clock, wall=wall
        )
        self._fleet = fleet
        self._clock = clock

    def join(
        self, engine: Engine, local: LocalChanges, hub: SyncHub
    ) -> tuple[FleetMember, FleetChanges]:
        """Return a replica, which joins the fleet when it is started, and the changes in all
        replicas.

        Args:
            engine: Has the policy.
            local: Carries changes out in this process and its gates.
            hub: The gates.
        """
        keys = Keys(self._fleet.prefix)
        store = StoreConnection(self._fleet, keys.tag, self._refusals)
        member = FleetMember(
            *(self.session, Stream(store, keys, self._fleet.secret()), self._refusals),
            engine=engine,
            local=local,
            hub=hub,
            clock=self._clock,
        )
        return member, FleetChanges(member, local, self._clock)
