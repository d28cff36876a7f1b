"""Builds this process's part of a fleet from the settings. Nothing runs yet."""

from collections.abc import Callable
from importlib.metadata import version

from queuegate_server.engine import Engine
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.keys import Keys
from queuegate_server.fleet.lease import ReplicaLease
from queuegate_server.fleet.member import FleetMember
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.fleet.stream import Stream
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.settings.fleet import Fleet
from queuegate_server.sync.hub import SyncHub


def join(
    fleet: Fleet,
    worker: int | None,
    *,
    lease: ReplicaLease,
    engine: Engine,
    reloader: Reloader,
    hub: SyncHub,
    clock: Callable[[], float],
) -> FleetMember:
    """Return a replica, which joins the fleet when it is started.

    Args:
        fleet: The settings, with a URL.
        worker: The number of the worker, each of which is a replica; None if there is one process.
        lease: The lease of all caches.
        engine: Has the groups to forget.
        reloader: Reads the policy again.
        hub: The gates.
        clock: The clock of the lease, in seconds.
    """
    keys = Keys(fleet.prefix)
    refusals = Refusals()
    store = StoreConnection(fleet, keys.tag, refusals)
    name = fleet.replica_name if worker is None else f"{fleet.replica_name}/{worker}"
    return FleetMember(
        name,
        Stream(store, keys, fleet.secret()),
        ReplicaLog(),
        version=version("queuegate"),
        lease=lease,
        engine=engine,
        reloader=reloader,
        hub=hub,
        clock=clock,
        refusals=refusals,
    )
