"""From settings to parts: the composition root. Nothing runs yet."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from queuegate_server.edge import Edge
from queuegate_server.engine import Engine
from queuegate_server.group_sources import GroupSources
from queuegate_server.ignoring_groups import IgnoringGroups
from queuegate_server.observe.tracing import Tracer
from queuegate_server.operations import Operations
from queuegate_server.reload import Reloader
from queuegate_server.rpc import health, reflection
from queuegate_server.rpc.access import AccessServicer
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.policy import PolicyServicer
from queuegate_server.rpc.registration import Interceptors, register
from queuegate_server.rpc.user_groups import UserGroupServicer
from queuegate_server.settings.model import Settings
from queuegate_server.transports.connections import connection_options
from queuegate_server.workers.everywhere import policy_everywhere, user_groups_everywhere
from queuegate_server.workers.member import Member

_SERVICES: Final = (
    access_pb2.DESCRIPTOR.services_by_name["AccessService"],
    user_groups_pb2.DESCRIPTOR.services_by_name["UserGroupService"],
    policy_pb2.DESCRIPTOR.services_by_name["PolicyService"],
)
_FEWEST: Final = 100
"""The fewest streams that a server should allow a connection (RFC 9113, 6.5.2)."""
_SPARE_CALLS: Final = 100
"""How many calls gRPC takes above the limit for ours: those of health and reflection."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a server is made of."""

    engine: Engine
    server: grpc.aio.Server
    health: health.Health
    reloader: Reloader
    sources: GroupSources
    draining: asyncio.Event
    edge: Edge
    operations: Operations
    tracer: Tracer | None


def compose(settings: Settings, member: Member | None) -> Parts:
    """Put a server together; as one worker of several (`member`) it shares its port.

    Needs the running loop. Raises CannotListen and CannotAudit if a file or the operations
    port is unusable, and TracingNotInstalled.
    """
    engine = Engine(time.monotonic)
    operations = Operations(settings, worker=None if member is None else member.place.index)
    tracer = Tracer(settings.tracing) if settings.tracing.enabled else None
    around = {} if tracer is None else {"around": tracer.resolver}
    observe = operations.lookups.of_resolver
    sources = GroupSources(settings, time.monotonic, time.time, observe, **around)
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
            *_most_waiting(limits.max_concurrent_calls),
            *connection_options(limits.connections),
        ),
    )
    edge = Edge(settings, time.monotonic, always=operations.is_auditing)
    decisions = operations.decisions
    # One for callers whose groups are believed, one for the others.
    access: list[Any] = [
        AccessServicer(
            each,
            Checks(each, time.monotonic, decisions),
            decisions,
            limits.stream_batches_in_flight,
            draining,
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


def _most_waiting(most: int) -> Iterator[tuple[str, int]]:
    """Yield the options that bound what gRPC holds for us before it is in work: of one
    connection half of the calls, so that others have room, and of all as many as may be in
    work. What is more, gRPC drops by itself, as CANCELLED: to refuse a call with a reason
    costs about as much time as to answer it, which is what an overload has not.
    """
    yield "grpc.max_concurrent_streams", max(_FEWEST, most // 2)
    yield "grpc.server.max_pending_requests", max(_FEWEST, most)
    yield "grpc.server.max_pending_requests_hard_limit", max(_FEWEST, most)
