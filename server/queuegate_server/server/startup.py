"""Starts and closes the decision core of a process."""

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from queuegate_server.decisions.core import DecisionCore
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.reloads import ReloadCause
from queuegate_server.sync.changes import NotReached

_LOG = logging.getLogger("queuegate_server.server.startup")


class CannotServe(Exception):
    """The policy is invalid, or one of its resolvers cannot be opened."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


async def load_first(core: DecisionCore, stop: asyncio.Event) -> bool:
    """Join the fleet and load the policy. Return False if stopped meanwhile. Raises CannotServe."""
    if core.fleet is not None:
        core.fleet.start()
    if core.sharing is not None:
        core.sharing.store.open()
    core.resolvers.follow_changes(partial(_invalidate, core))
    core.reloader.follow_cluster()
    loading = asyncio.create_task(core.reloader.reload(ReloadCause.START))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not loading.done():
        loading.cancel()
        return False
    state = loading.result()
    if not state.succeeded:
        raise CannotServe(state.diagnostics)
    snapshot = core.engine.snapshot
    if any(each.partition.named_grants and not each.age for each in snapshot.served.values()):
        raise CannotServe((_not_served(snapshot.policy.source),))
    return True


def _not_served(source: str) -> Diagnostic:
    """Return why RBAC from files is not served: nobody would notice that it differs."""
    message = "RBAC in files is only for commands that need no server"
    remedy = "to follow a cluster's RBAC, set policy.kubernetes without manifests"
    return Diagnostic(source, 0, 0, Severity.ERROR, message, remedy)


async def _invalidate(core: DecisionCore, partition: str, users: Collection[str]) -> bool:
    """Invalidate groups that a resolver reports as changed; see `identity.manager.Invalidate`."""
    try:
        await core.changes.invalidate(partition, users, wait=False)
    except NotReached as error:
        _LOG.warning("group changes: %s", error)
        return False
    return True


async def close_core(core: DecisionCore) -> None:
    """Close the parts that make and record decisions, once no call uses them."""
    await core.resolvers.stop_following()
    if core.fleet is not None:
        await core.fleet.close()
    core.sync.close()
    await core.resolvers.close()
    if core.sharing is not None:
        await core.sharing.store.close()
    if core.audit is not None:
        await core.audit.close()
