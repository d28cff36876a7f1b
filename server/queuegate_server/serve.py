"""Composition: from settings to a running server, and from a signal to a clean end."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from queuegate_server.engine import Engine
from queuegate_server.formats.problems import Problem
from queuegate_server.group_sources import GroupSources
from queuegate_server.hangup import Hangup, OnHangup
from queuegate_server.observe import logs
from queuegate_server.observe.tracing import Tracer
from queuegate_server.policy.tree import Policy
from queuegate_server.reload import Reloader
from queuegate_server.rpc import health, reflection
from queuegate_server.rpc.access import AccessServicer
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.interceptors import CallLimit
from queuegate_server.rpc.policy import PolicyServicer
from queuegate_server.rpc.registration import register
from queuegate_server.rpc.user_groups import UserGroupServicer
from queuegate_server.settings.model import Settings
from queuegate_server.systemd_notify import Notifier
from queuegate_server.transports.listen import Address, bind, parse_address
from queuegate_server.workers.everywhere import policy_everywhere, user_groups_everywhere
from queuegate_server.workers.member import Member

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
    server: grpc.aio.Server
    health: health.Health
    reloader: Reloader
    sources: GroupSources
    draining: asyncio.Event
    limit: CallLimit


async def serve(
    settings: Settings,
    started: Callable[[list[str], Policy], list[str]],
    *,
    reread: Callable[[], Settings] | None = None,
    member: Member | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, also while the first policy is being read; a second
    signal ends the process at once.

    `started` returns the lines to print, from the addresses and the policy, once the first
    one is served. `reread` reads the settings again on SIGHUP. As one worker of several
    (`member`) it listens only when it can answer, and its supervisor does the printing.
    Raises CannotListen if an address is unusable, CannotStart if the policy is, and
    TracingNotInstalled.
    """
    addresses = _addresses(settings, member)
    tracer = Tracer(settings.tracing) if settings.tracing.enabled else None
    parts = _compose(settings, member, tracer)
    stop = asyncio.Event() if member is None else member.gone
    notifier = Notifier()
    hangup = Hangup(settings, reread, notifier)
    hangup.on_hangup += _changes(parts, member)
    tasks: set[asyncio.Task[object]] = set()
    _on_signals(stop, hangup, tasks)
    alive = asyncio.create_task(notifier.keep_alive())
    bound: list[str] = []
    try:
        if member is None:
            bound = await _listen(parts, addresses, settings)
        else:
            member.hangup = hangup.run
            await member.open()
        if await _load_first(parts.reloader, stop):
            if member is not None:
                bound = await _listen(parts, addresses, settings)
            parts.health.set_serving(serving=True)
            if any(source.is_set for source in settings.sources):
                tasks.add(asyncio.create_task(parts.reloader.watch()))
            _announce(addresses, bound, settings)
            lines = started(bound, parts.engine.snapshot.policy)
            if member is not None:
                await member.ready(lines)
            notifier.ready()
            await stop.wait()
            notifier.stopping()
            drain = hangup.settings.drain
            _LOG.info("draining", extra={"grace_seconds": drain.grace})
            parts.health.set_serving(serving=False)
            await asyncio.sleep(drain.delay)
    finally:
        parts.health.end_watches()
        parts.draining.set()
        for task in tasks:
            task.cancel()
        await parts.server.stop(hangup.settings.drain.grace if stop.is_set() else None)
        await parts.sources.close()
        if tracer is not None:
            await tracer.close()
        if member is not None:
            await member.close()
        alive.cancel()
    _LOG.info("stopped")


def _addresses(settings: Settings, member: Member | None) -> list[Address]:
    """Return where to listen; a worker at the ports that its supervisor has chosen."""
    addresses = [parse_address(text) for text in settings.listen]
    if member is None:
        return addresses
    ports = member.place.ports
    return [replace(one, port=port) for one, port in zip(addresses, ports, strict=True)]


async def _listen(parts: _Parts, addresses: list[Address], settings: Settings) -> list[str]:
    bound = [bind(parts.server, address, settings.unix_socket_mode) for address in addresses]
    await parts.server.start()
    return bound


def _changes(parts: _Parts, member: Member | None) -> list[OnHangup]:
    """Return what SIGHUP does besides reading the settings."""
    worker = None if member is None else member.place.index

    async def reload_policy(_settings: Settings) -> None:
        await parts.reloader.reload()

    return [
        lambda settings: logs.configure(settings.log.level, settings.log.format, worker=worker),
        lambda settings: parts.limit.use(settings.limits.max_concurrent_calls),
        parts.sources.use,
        reload_policy,
    ]


def _compose(settings: Settings, member: Member | None, tracer: Tracer | None) -> _Parts:
    engine = Engine(time.monotonic, time.time)
    around = {} if tracer is None else {"around": tracer.resolver}
    sources = GroupSources(settings, time.monotonic, time.time, **around)
    number = None if member is None else member.revision
    reloader = Reloader(settings, sources, engine, time.time, number)
    draining = asyncio.Event()
    limits = settings.limits
    server = grpc.aio.server(
        maximum_concurrent_rpcs=limits.max_concurrent_calls + _SPARE_CALLS,
        options=(
            ("grpc.max_receive_message_length", limits.max_message),
            ("grpc.max_send_message_length", -1),
            # Two servers on one port would answer from two policies; workers have one.
            ("grpc.so_reuseport", 0 if member is None else 1),
        ),
    )
    checks = Checks(engine, time.monotonic)
    user_groups, policy = UserGroupServicer(engine), PolicyServicer(engine, reloader)
    servicers = (
        AccessServicer(engine, checks, limits.stream_batches_in_flight, draining),
        user_groups if member is None else user_groups_everywhere(user_groups, member),
        policy if member is None else policy_everywhere(policy, member),
    )
    limit = CallLimit(limits.max_concurrent_calls)
    for service, servicer in zip(_SERVICES, servicers, strict=True):
        register(server, service, servicer, limit, tracer)
    names = [service.full_name for service in _SERVICES]
    health_servicer = health.Health(names)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        reflection.Reflection([*names, health.SERVICE, reflection.SERVICE], draining), server
    )
    return _Parts(engine, server, health_servicer, reloader, sources, draining, limit)


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


def _on_signals(stop: asyncio.Event, hangup: Hangup, tasks: set[asyncio.Task[object]]) -> None:
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def ask_to_reload() -> None:
        task = asyncio.create_task(hangup.run())
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
