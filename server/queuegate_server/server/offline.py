"""Runs the server's services in process, for commands that make decisions without a server."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from queuegate_server.config_fields import MIB
from queuegate_server.decisions.core import build_core
from queuegate_server.engine import Snapshot
from queuegate_server.identity import resolver_types
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import Resolver
from queuegate_server.identity.resolver_types import ResolverType
from queuegate_server.reloads import ReloadCause
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.policy_service import PolicyServicer
from queuegate_server.server.startup import CannotServe
from queuegate_server.settings.fleet import Fleet
from queuegate_server.settings.model import Settings
from queuegate_server.settings.observability import Audit
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.throttling.controlled_delay import MAX_WAIT_SECONDS

if TYPE_CHECKING:
    from queuegate_server.policystore.kubernetes.cluster_policy import ClusterPolicy

_CLUSTER_SECONDS: Final = 60.0
"""The time limit for reading a cluster's RBAC."""
_REMEDY: Final = "or ask a server (--address), or name files with --policy or kubernetes.manifests"
Substitute = Callable[[str], Resolver | None]
"""Returns a substitute for the named resolver type, or None for no substitution."""


class CannotReadCluster(Exception):
    """A cluster's RBAC cannot be read now. The message says why, and what to do instead."""


class OfflineServices:
    """An in-process equivalent of a server with the given settings. Not thread-safe."""

    def __init__(self, settings: Settings, substitute: Substitute = lambda _: None) -> None:
        """Build the services; call `load` before using them. `substitute` may replace resolvers."""
        # Commands neither write audit records nor join a fleet.
        alone = settings.model_copy(update={"audit": Audit(), "fleet": Fleet()})
        self._core = core = build_core(
            alone, alone, resolver_type=partial(_resolver_type, substitute)
        )
        unread = ByteBudget(64 * MIB)
        queue = LongCallQueue(time.monotonic, MAX_WAIT_SECONDS, Counter(), unread)
        access = AccessServicer(
            core.engine, CallLog(core.decisions, time.time), queue, clock=core.clock
        )
        policies = PolicyServicer(core.engine, core.reloader, queue, core.changes)
        by_caller = (
            access.CheckQueueAccess,
            access.ExplainQueueAccess,
            access.ListQueues,
            access.CheckApplicationAccess,
            access.ExplainApplicationAccess,
        )
        self._methods: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            **{each.__name__: partial(each, trusted=True) for each in by_caller},
            "ListUsers": access.ListUsers,
            "GetPolicy": policies.GetPolicy,
        }

    async def load(self) -> Snapshot:
        """Read the policy once. Raises CannotServe or CannotReadCluster."""
        self._core.reloader.follow_cluster()
        if self._core.reloader.cluster is not None:
            await _read(self._core.reloader.cluster)
        state = await self._core.reloader.reload(ReloadCause.START)
        if not state.succeeded:
            raise CannotServe(state.diagnostics)
        return self._core.engine.snapshot

    async def call(self, method: str, data: bytes) -> bytes:
        """Call `GetPolicy`, or a method that checks, explains or lists.

        The request may assert groups. Raises KeyError for other methods, and the exceptions handled
        by `rpc.errors.to_status`.
        """
        return await self._methods[method](data)

    async def close(self) -> None:
        """Close the resolvers."""
        self._core.reloader.close()
        await self._core.resolvers.close()


async def _read(cluster: "ClusterPolicy") -> None:
    """Wait until a cluster's RBAC has been read. Raises CannotReadCluster."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLUSTER_SECONDS):
            await cluster.read()
    if not cluster.ready.is_set():
        fault = next(cluster.faults, f"RBAC was not read within {_CLUSTER_SECONDS:g} s")
        raise CannotReadCluster(f"{cluster.name}: {fault} ({_REMEDY})")


@dataclass(slots=True)
class _SubstituteType:
    """A resolver type whose only instance is a substitute."""

    resolver: Resolver
    Options: type[ResolverOptions] = ResolverOptions

    def __call__(self, _options: ResolverOptions) -> Resolver:
        return self.resolver


def _resolver_type(substitute: Substitute, name: str) -> ResolverType:
    """Return the substitute for a resolver type, or the type itself. Raises BadResolverType."""
    resolver = substitute(name)
    return resolver_types.resolver_type(name) if resolver is None else _SubstituteType(resolver)
