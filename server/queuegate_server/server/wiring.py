"""From settings to parts: the composition root. Nothing runs yet."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from queuegate_server.engine import Engine
from queuegate_server.ignoring_groups import IgnoringGroups
from queuegate_server.observe.tracing import Tracer
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.policystore.resolver_manager import ResolverManager
from queuegate_server.rpc import errors, health, reflection
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.policy_service import PolicyServicer
from queuegate_server.rpc.server import Interceptors, register
from queuegate_server.rpc.user_group_service import UserGroupServicer
from queuegate_server.server.listeners import Edge
from queuegate_server.server.operations import Operations
from queuegate_server.settings.model import Settings
from queuegate_server.supervisor.broadcast import policy_everywhere, user_groups_everywhere
from queuegate_server.supervisor.worker_client import WorkerClient
from queuegate_server.transports.choose import Transport
from queuegate_server.transports.grpc_servers import Server, make_server
from queuegate_server.transports.refusal import Refusal

_SERVICES: Final = (
    access_pb2.DESCRIPTOR.services_by_name["AccessService"],
    user_groups_pb2.DESCRIPTOR.services_by_name["UserGroupService"],
    policy_pb2.DESCRIPTOR.services_by_name["PolicyService"],
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server is made of."""

    engine: Engine
    server: Server
    health: health.Health
    reloader: Reloader
    sources: ResolverManager
    draining: asyncio.Event
    edge: Edge
    operations: Operations
    tracer: Tracer | None


def compose(
    settings: Settings, holding: Settings, transport: Transport, member: WorkerClient | None
) -> Parts:
    """Put a server together from the settings at the start and those that hold by now; as
    one worker of several (`member`) it shares its port.

    Needs the running loop. Raises CannotListen and CannotAudit if a file or the operations
    port is unusable, and TracingNotInstalled.
    """
    engine = Engine(time.monotonic)
    operations = Operations(holding, worker=None if member is None else member.place.index)
    tracer = Tracer(settings.tracing) if settings.tracing.enabled else None
    around = {} if tracer is None else {"around": tracer.resolver}
    observe = operations.lookups.of_resolver
    sources = ResolverManager(holding, time.monotonic, time.time, observe, **around)
    number = None if member is None else member.revision
    reloader = Reloader(settings, sources, engine, time.time, number)
    draining = asyncio.Event()
    refusal = Refusal(*errors.as_too_much(), operations.limit.refused)
    server = make_server(transport, settings.limits, refusal, shares_port=member is not None)
    edge = Edge(holding, time.monotonic, time.time, always=operations.is_auditing)
    decisions = operations.decisions
    turns = AdmissionQueue(time.monotonic, settings.limits.max_wait, operations.limit.refused)
    # One for callers whose groups are believed, one for the others.
    access: list[Any] = [
        AccessServicer(
            each,
            Checks(each, time.monotonic, decisions, turns),
            decisions,
            settings.limits.stream_batches_in_flight,
            draining,
            turns=turns,
        )
        for each in (engine, IgnoringGroups(engine, time.monotonic))
    ]
    user_groups, policy = UserGroupServicer(engine), PolicyServicer(engine, reloader)
    servicers: tuple[list[Any], ...] = (
        access,
        [user_groups if member is None else user_groups_everywhere(user_groups, member)] * 2,
        [policy if member is None else policy_everywhere(policy, member)] * 2,
    )
    interceptors = Interceptors(operations.limit, edge.gate, operations.calls, tracer)
    for service, both in zip(_SERVICES, servicers, strict=True):
        register(server, service, both, interceptors)
    names = [service.full_name for service in _SERVICES]
    health_servicer = health.Health(names)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    if settings.reflection:
        described = [*names, health.SERVICE, reflection.SERVICE]
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.Reflection(described, draining, edge.gate), server
        )
    return Parts(
        engine, server, health_servicer, reloader, sources, draining, edge, operations, tracer
    )
