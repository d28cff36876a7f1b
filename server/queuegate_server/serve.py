"""Composition: from settings to a running server, and from a signal to a clean end."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from queuegate_server.engine import Engine
from queuegate_server.formats.problems import Problem
from queuegate_server.group_sources import GroupSources
from queuegate_server.policy.tree import Policy
from queuegate_server.reload import Reloader
from queuegate_server.rpc import health, reflection
from queuegate_server.rpc.access import AccessServicer
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.columns import Columns
from queuegate_server.rpc.interceptors import CallLimit
from queuegate_server.rpc.policy import PolicyServicer
from queuegate_server.rpc.registration import register
from queuegate_server.rpc.user_groups import UserGroupServicer
from queuegate_server.settings.model import Settings
from queuegate_server.transports.choose import Transport, choose
from queuegate_server.transports.grpc_servers import Server, make_server
from queuegate_server.transports.listen import Address, bind, parse_address

_LOG = logging.getLogger("queuegate_server.serve")
_SERVICES: Final = (
    access_pb2.DESCRIPTOR.services_by_name["AccessService"],
    user_groups_pb2.DESCRIPTOR.services_by_name["UserGroupService"],
    policy_pb2.DESCRIPTOR.services_by_name["PolicyService"],
)
_SPARE_CALLS: Final = 100
"""How many calls gRPC takes above the limit for ours: those of health and reflection."""


class CannotStart(Exception):
    """The first policy is not valid."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Keep the findings."""
        super().__init__(f"{len(problems)} findings")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Parts:
    engine: Engine
    server: Server
    health: health.Health
    reloader: Reloader
    sources: GroupSources
    draining: asyncio.Event


async def serve(settings: Settings, started: Callable[[list[str], Policy], None]) -> None:
    """Serve until SIGTERM or SIGINT, also while the first policy is being read; a second
    signal ends the process at once.

    Calls `started` with the addresses and the policy once the first one is served. Raises
    CannotListen if an address is unusable and CannotStart if the policy is.
    """
    addresses = [parse_address(text) for text in settings.listen]
    transport, reason = choose(settings.transport, addresses)
    parts = _compose(settings, transport)
    bound = [bind(parts.server, address, settings.unix_socket_mode) for address in addresses]
    stop = asyncio.Event()
    tasks: set[asyncio.Task[object]] = set()
    _on_signals(stop, parts.reloader, tasks)
    try:
        await parts.server.start()
        if await _load_first(parts.reloader, stop):
            parts.health.set_serving(serving=True)
            if any(source.is_set for source in settings.sources):
                tasks.add(asyncio.create_task(parts.reloader.watch()))
            _LOG.info("transport", extra={"transport": transport, "not_native": reason})
            _announce(addresses, bound, settings)
            started(bound, parts.engine.snapshot.policy)
            await stop.wait()
            _LOG.info("draining", extra={"grace_seconds": settings.drain.grace})
            parts.health.set_serving(serving=False)
            await asyncio.sleep(settings.drain.delay)
    finally:
        parts.health.end_watches()
        parts.draining.set()
        for task in tasks:
            task.cancel()
        await parts.server.stop(settings.drain.grace if stop.is_set() else None)
        await parts.sources.close()
    _LOG.info("stopped")


def _compose(settings: Settings, transport: Transport) -> _Parts:
    engine = Engine(time.monotonic, time.time)
    sources = GroupSources(settings, time.monotonic, time.time)
    reloader = Reloader(settings, sources, engine, time.time)
    draining = asyncio.Event()
    limits = settings.limits
    server = make_server(transport, limits.max_concurrent_calls + _SPARE_CALLS, limits.max_message)
    checks = Checks(engine, time.monotonic)
    columns = Columns(engine, time.monotonic, checks.encoded)
    servicers = (
        AccessServicer(engine, checks, columns, limits.stream_batches_in_flight, draining),
        UserGroupServicer(engine),
        PolicyServicer(engine, reloader),
    )
    limit = CallLimit(limits.max_concurrent_calls)
    for service, servicer in zip(_SERVICES, servicers, strict=True):
        register(server, service, servicer, limit)
    names = [service.full_name for service in _SERVICES]
    health_servicer = health.Health(names)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        reflection.Reflection([*names, health.SERVICE, reflection.SERVICE], draining), server
    )
    return _Parts(engine, server, health_servicer, reloader, sources, draining)


async def _load_first(reloader: Reloader, stop: asyncio.Event) -> bool:
    """Serve the first policy; return False if asked to stop before that."""
    loading = asyncio.create_task(reloader.reload())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not loading.done():
        loading.cancel()
        return False
    state = loading.result()
    if not state.succeeded:
        raise CannotStart(state.problems)
    return True


def _on_signals(stop: asyncio.Event, reloader: Reloader, tasks: set[asyncio.Task[object]]) -> None:
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def ask_to_reload() -> None:
        task = asyncio.create_task(reloader.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    loop.add_signal_handler(signal.SIGHUP, ask_to_reload)


def _announce(addresses: list[Address], bound: list[str], settings: Settings) -> None:
    if not any(source.is_set for source in settings.sources):
        _LOG.warning("no policy is configured; serving the embedded default")
    for address, text in zip(addresses, bound, strict=True):
        if not address.is_local:
            _LOG.warning("listening without TLS beyond this machine", extra={"address": text})
        _LOG.info("listening", extra={"address": text})
