"""The composition root: builds all parts of a server from its settings without starting them."""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grpc_health.v1 import health_pb2_grpc

from queuegate.v1 import access_pb2, policy_pb2, sync_pb2, user_groups_pb2
from queuegate_server.admin.readiness import Readiness
from queuegate_server.config_fields import MIB
from queuegate_server.decisions.core import DecisionCore, WorkerIdentity, build_core
from queuegate_server.observe.counters import MethodCounters
from queuegate_server.observe.tracing import Tracer
from queuegate_server.rpc import health, reflection
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import DETAILS_TRAILER, Overloaded, to_status
from queuegate_server.rpc.freshness import Freshness
from queuegate_server.rpc.interceptors import ConcurrencyLimiter
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.policy_service import PolicyServicer
from queuegate_server.rpc.server import Interceptors, register
from queuegate_server.rpc.sync_service import SyncServicer
from queuegate_server.rpc.user_group_service import UserGroupServicer
from queuegate_server.server.listeners import Listeners
from queuegate_server.settings.model import Settings
from queuegate_server.supervisor.worker_client import WorkerClient
from queuegate_server.sync.connected import listed
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.throttling.controlled_delay import MAX_WAIT_SECONDS
from queuegate_server.transports import registry
from queuegate_server.transports.registry import Server
from queuegate_server.transports.stalls import Refusal

if TYPE_CHECKING:
    from queuegate_server.transports.http.ports import HttpPorts

_SERVICES: Final = (
    access_pb2.DESCRIPTOR.services_by_name["AccessService"],
    user_groups_pb2.DESCRIPTOR.services_by_name["UserGroupService"],
    policy_pb2.DESCRIPTOR.services_by_name["PolicyService"],
    sync_pb2.DESCRIPTOR.services_by_name["SyncService"],
)
SIGN_INS: Final = ("success", "failure", "refused")
MAX_UNREAD: Final = 64 * MIB
"""The number of unread response bytes at which long calls are rejected."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a server."""

    core: DecisionCore
    access: AccessServicer
    user_groups: UserGroupServicer
    checking: asyncio.Lock
    """The lock held while a caller's text is parsed."""
    server: Server
    health: health.HealthServicer
    draining: asyncio.Event
    listeners: Listeners
    call_limit: ConcurrencyLimiter
    readiness: Readiness
    tracer: Tracer | None
    calls: list[MethodCounters]
    sync_streams_limit: int
    http: "HttpPorts | None"
    """The HTTP server; None unless it is configured."""
    sign_ins: dict[str, int]
    """Console sign-in attempts by result; empty without a console."""


def build_server(
    settings: Settings, current: Settings, transport: str, worker: WorkerClient | None
) -> ServerParts:
    """Build a server on the running event loop.

    Args:
        settings: The settings at service start.
        current: The current settings, after any reloads.
        transport: The name of the gRPC transport.
        worker: The worker's client if this process is one of several workers. Workers share ports
            but not audit logs.

    Raises:
        CannotListen: A listener's file is unusable.
        CannotAudit: The audit log is unusable.
        TracingNotInstalled: Tracing is enabled and OpenTelemetry is not installed.
    """
    tracer = Tracer(settings.tracing) if settings.tracing.enabled else None
    core = build_core(
        settings,
        current,
        None
        if worker is None
        else WorkerIdentity(worker.spec.index, worker.spec.server, worker.revision),
        around=None if tracer is None else tracer.resolver,
    )
    call_log = CallLog(core.decisions, time.time)
    calls: list[MethodCounters] = []
    call_limit = ConcurrencyLimiter(current.limits.max_concurrent_calls)
    fleet = core.fleet
    readiness = Readiness(core.engine, core.reloader, None if fleet is None else fleet.view)

    listeners = Listeners(current, time.monotonic, time.time)
    overloaded = to_status(Overloaded("the server has more calls than it can answer in time"))
    refusal = Refusal(
        overloaded.proto.message, ((DETAILS_TRAILER, overloaded.trailer),), call_limit.refused
    )
    unread = ByteBudget(MAX_UNREAD)
    server = registry.build(
        transport, settings.limits, unread, refusal, shares_port=worker is not None
    )
    draining = asyncio.Event()
    queue = LongCallQueue(time.monotonic, MAX_WAIT_SECONDS, call_limit.refused, unread)
    access = AccessServicer(
        core.engine,
        call_log,
        queue,
        clock=core.clock,
        lease=core.lease,
        freshness=Freshness(core.sync.log.has_seen)
        if fleet is None
        else Freshness(fleet.has_applied, fleet.follower.catch_up),
    )
    user_groups = UserGroupServicer(core.engine, queue, core.changes)
    policies = PolicyServicer(
        core.engine,
        core.reloader,
        queue,
        core.changes,
        readiness,
        lambda: listed(each.gate for each in core.sync.leases),
    )
    servicers: list[object] = [
        access,
        user_groups,
        policies,
        SyncServicer(
            core.engine,
            core.sync,
            queue,
            draining=draining,
            clock=core.clock,
            max_streams=settings.sync.streams,
            max_streams_per_caller=settings.sync.streams_per_caller,
            local_decisions=core.audit is None or settings.sync.local_decisions == "allow",
        ),
    ]
    if worker is not None and fleet is None:
        servicers = [worker.broadcast_methods(servicer) for servicer in servicers]
    interceptors = Interceptors(calls, tracer, call_limit, listeners.authorizer)
    for service, servicer in zip(_SERVICES, servicers, strict=True):
        register(server, service, servicer, interceptors)
    http = None
    if settings.http.listen:
        from queuegate_server.server.http import build_http  # noqa: PLC0415 - slow, optional

        http = build_http(settings, listeners, queue, shares_port=worker is not None)
        over_http = interceptors._replace(authorizer=listeners.http_authorizer)
        register(http.server, _SERVICES[0], access, over_http)
    names = [service.full_name for service in _SERVICES]
    health_servicer = health.HealthServicer(names)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    if settings.reflection:
        described = [*names, health.SERVICE]
        servicer = reflection.ReflectionServicer(described, draining, listeners.authorizer)
        reflection.add_reflection(servicer, server)

    return ServerParts(
        core=core,
        access=access,
        user_groups=user_groups,
        checking=policies.checking,
        server=server,
        health=health_servicer,
        draining=draining,
        listeners=listeners,
        call_limit=call_limit,
        readiness=readiness,
        tracer=tracer,
        calls=calls,
        sync_streams_limit=settings.sync.streams,
        http=http,
        sign_ins=dict.fromkeys(SIGN_INS, 0) if settings.console.enabled else {},
    )
