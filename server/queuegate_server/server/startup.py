"""Starts and closes the decision core of a process."""

import asyncio

from queuegate_server.decisions.core import DecisionCore
from queuegate_server.formats.diagnostics import Diagnostic


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
    loading = asyncio.create_task(core.reloader.reload())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not loading.done():
        loading.cancel()
        return False
    state = loading.result()
    if not state.succeeded:
        raise CannotServe(state.diagnostics)
    return True


async def close_core(core: DecisionCore) -> None:
    """Close the parts that make and record decisions, once no call uses them."""
    if core.fleet is not None:
        await core.fleet.close()
    core.sync.close()
    await core.resolvers.close()
    if core.sharing is not None:
        await core.sharing.store.close()
    if core.audit is not None:
        await core.audit.close()
