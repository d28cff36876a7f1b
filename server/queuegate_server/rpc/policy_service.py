"""PolicyService: returns, validates and reloads policies."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.chain import CLUSTER
from queuegate.policy.created_queues import QueueCreation, trailing_wildcards
from queuegate.policy.decision import ACLS_DISABLED, Access
from queuegate.policy.names import DEFAULT_PARTITION, SEPARATOR, is_at_or_below
from queuegate.policy.queue import Queue
from queuegate.policy.tree import Partition
from queuegate.v1 import policy_pb2, sync_pb2
from queuegate_server.admin.readiness import Readiness
from queuegate_server.engine import Engine
from queuegate_server.fleet.view import WEBHOOK, ReplicaView
from queuegate_server.formats.diagnostics import Diagnostic, has_errors
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.format_names import (
    CAPACITY_SCHEDULER,
    FAIR_SCHEDULER,
    FILE_FORMATS,
    KUBERNETES,
    YUNIKORN,
)
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.policystore import parser_process
from queuegate_server.policystore.parsing import CheckJob, File
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.rpc import validation
from queuegate_server.rpc.errors import InvalidRequest, Overloaded
from queuegate_server.rpc.load_shedding import LongCallQueue, Slot
from queuegate_server.rpc.messages import (
    ACCESS_TYPES,
    acl_entries,
    diagnostics,
    stale_gates,
    timestamp,
)
from queuegate_server.runtime.pacing import Pace
from queuegate_server.sync.changes import Changes
from queuegate_server.sync.connected import ConnectedGate

MAX_CONTENT_BYTES: Final = 2 * 1024 * 1024
"""The maximum size of a policy to validate, twice that of a ConfigMap."""
MAX_VALIDATIONS: Final = 16
"""The maximum number of running and waiting validations. Only one runs at a time."""
_CHUNK: Final = 100
"""The number of queues or diagnostics converted between two pauses."""
_ROLES: Final = {
    "": policy_pb2.REPLICA_ROLE_SERVER,
    WEBHOOK: policy_pb2.REPLICA_ROLE_WEBHOOK,
}
_CONTENT_NAME: Final = ""
"""The file name that diagnostics use for a request's content."""


@dataclass(slots=True, eq=False)
class PolicyServicer:
    """Implements PolicyService. Its methods take and return serialized messages."""

    engine: Engine
    reloader: Reloader
    queue: LongCallQueue
    changes: Changes
    readiness: Readiness | None = None
    """The source of the fleet's state."""
    own_gates: Callable[[], Sequence[ConnectedGate]] = tuple
    """Returns the gates that are connected to this process."""
    checking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """The lock held while a caller's text is parsed, because a parser may take half of a
    container's memory."""
    _validations: int = field(default=0, init=False)

    async def GetPolicy(self, data: bytes) -> bytes:
        """Return a partition's policy."""
        async with self.queue.for_call(data) as slot:
            return await self._policy(await slot.parse(policy_pb2.GetPolicyRequest, data), slot)

    async def _policy(self, request: policy_pb2.GetPolicyRequest, slot: Slot) -> bytes:
        violations: validation.Violations = []
        snapshot = self.engine.snapshot
        names = sorted(snapshot.served)
        has_one = len(names) == 1 and not request.partition
        name = names[0] if has_one else request.partition or DEFAULT_PARTITION
        served = validation.find_partition(name, snapshot, violations, to_show=True)
        prefix = validation.optional_queue("prefix", request.prefix, served, violations)
        if violations or served is None:
            raise InvalidRequest(violations)
        cluster = served.partition.cluster
        response = policy_pb2.GetPolicyResponse(
            source=snapshot.policy.source,
            revision=snapshot.policy.revision,
            checksum=snapshot.policy.checksum,
            loaded_at=timestamp(snapshot.loaded_at),
            resolver=served.groups.resolver_name,
            partitions=names,
            diagnostics=diagnostics(snapshot.warnings),
            format=_format(served.partition),
            semantics=cluster.semantics if cluster else "",
            unenforced=[
                ACCESS_TYPES[each]
                for each in Access
                if served.partition.chain(CLUSTER, each).otherwise is ACLS_DISABLED
            ],
        )
        state = self.reloader.state
        if not state.succeeded:
            response.reload_failed_at.CopyFrom(timestamp(state.ended_at))
            response.reload_diagnostics.extend(diagnostics(state.diagnostics))
        # Serialize in parts. Clients receive one message, because protobuf merges concatenated
        # messages.
        parts = [response.SerializeToString()]
        creation = served.partition.creation
        queues = iter(served.partition.queues.items())
        while chunk := [*itertools.islice(queues, _CHUNK)]:
            shown = [
                _queue(queue, creation) for path, queue in chunk if is_at_or_below(path, prefix)
            ]
            parts.append(policy_pb2.GetPolicyResponse(queues=shown).SerializeToString())
            await slot.pause_if_due()
        templates = iter(creation.templates if creation else ())
        while some := [*itertools.islice(templates, _CHUNK)]:
            part = policy_pb2.GetPolicyResponse()
            for template in some:
                if _applies_below(template.path, prefix):
                    part.templates.add(**template._asdict())
            parts.append(part.SerializeToString())
            await slot.pause_if_due()
        return b"".join(parts)

    async def ValidatePolicy(self, data: bytes) -> bytes:
        """Validate a policy in a child process. Validations run one at a time."""
        request = await self.queue.parse(policy_pb2.ValidatePolicyRequest, data)
        content = request.content.encode()
        if len(content) > MAX_CONTENT_BYTES:
            text = f"is longer than {MAX_CONTENT_BYTES} bytes: run queuegate-server validate on it"
            raise InvalidRequest([("content", text)])
        if request.format and request.format not in FILE_FORMATS:
            formats = ", ".join(sorted(FILE_FORMATS))
            raise InvalidRequest([("format", f"is not a known format; known formats: {formats}")])
        if self._validations >= MAX_VALIDATIONS:
            raise Overloaded(
                f"{MAX_VALIDATIONS} validations are running or waiting, which is the limit"
            )
        self._validations += 1
        try:
            async with self.checking:
                options = FormatOptions(self._acl_names())
                job = CheckJob(request.format, (File(_CONTENT_NAME, content),), options)
                diagnosed = await parser_process.check(job)
        except OSError as error:
            raise Overloaded(
                f"the validation process cannot be started: {error.strerror or error}"
            ) from error
        finally:
            self._validations -= 1
        response = policy_pb2.ValidatePolicyResponse(valid=not has_errors(diagnosed))
        parts = [response.SerializeToString()]
        pace = Pace()
        for start in range(0, len(diagnosed), _CHUNK):
            part = diagnostics(diagnosed[start : start + _CHUNK])
            parts.append(policy_pb2.ValidatePolicyResponse(diagnostics=part).SerializeToString())
            await pace.pause_if_due()
        return b"".join(parts)

    def _acl_names(self) -> Mapping[str, AclNames]:
        """Return each served partition's set of names allowed in ACLs."""
        latest = self.engine.latest
        served = {} if latest is None else latest.served
        return {name: each.partition.acl_names for name, each in served.items()}

    async def ReloadPolicy(self, data: bytes) -> bytes:
        """Reload the policy."""
        request = await self.queue.parse(policy_pb2.ReloadPolicyRequest, data)
        result = await self.changes.reload(wait=request.wait)
        others = [Diagnostic("fleet", 0, 0, Severity.WARNING, each) for each in result.disagreeing]
        return policy_pb2.ReloadPolicyResponse(
            succeeded=result.state.succeeded,
            revision=self.engine.snapshot.policy.revision,
            diagnostics=diagnostics((*result.state.diagnostics, *others)),
            cursor=result.cursor,
            waited_out=result.waited_out,
            stale_gates=stale_gates(result.stale),
        ).SerializeToString()

    async def GetFleet(self, data: bytes) -> bytes:
        """Return the fleet's replicas."""
        await self.queue.parse(policy_pb2.GetFleetRequest, data)
        if self.readiness is None or self.readiness.fleet is None:
            gates = [_gate(each, "") for each in self.own_gates()]
            return policy_pb2.GetFleetResponse(gates=gates).SerializeToString()
        view = self.readiness.fleet()
        return policy_pb2.GetFleetResponse(
            replicas=map(_replica, view.replicas),
            connected=view.connected,
            agreed=view.agreed,
            problems=view.problems,
            gates=[
                _gate(gate, replica.name)
                for replica in view.replicas
                if replica.state != "silent"
                for gate in replica.connected_gates
            ],
        ).SerializeToString()


def _gate(gate: ConnectedGate, replica: str) -> policy_pb2.FleetGate:
    counts = None if gate.counts is None else sync_pb2.GateCounts(**gate.counts._asdict())
    return policy_pb2.FleetGate(
        name=gate.name,
        caller=gate.caller,
        agent=gate.agent,
        replica=replica,
        stale_millis=gate.stale_millis,
        counts=counts,
    )


def _replica(replica: ReplicaView) -> policy_pb2.FleetReplica:
    return policy_pb2.FleetReplica(
        name=replica.name,
        state=policy_pb2.ReplicaState.Value(f"REPLICA_STATE_{replica.state.upper()}"),
        self=replica.is_self,
        version=replica.version,
        lag=replica.lag,
        policy_revision=replica.revision,
        policy_checksum=replica.checksum,
        gates=replica.gates,
        silent_seconds=replica.silent_seconds,
        role=_ROLES.get(replica.role, policy_pb2.REPLICA_ROLE_UNSPECIFIED),
        queue_decisions=[
            policy_pb2.QueueDecisions(**each._asdict()) for each in replica.queue_decisions
        ],
        http_addresses=replica.http_addresses,
    )


def _format(partition: Partition) -> str:
    if partition.named_grants is not None:
        return KUBERNETES
    cluster = partition.cluster
    if cluster is None:
        return YUNIKORN
    return CAPACITY_SCHEDULER if cluster.has_short_names else FAIR_SCHEDULER


def _applies_below(template_path: str, prefix: str) -> bool:
    """Return whether a template may apply to queues at or below a prefix."""
    if is_at_or_below(template_path, prefix):
        return True
    levels = template_path.split(SEPARATOR)
    wildcards = trailing_wildcards(template_path)
    named = SEPARATOR.join(levels[: len(levels) - wildcards])
    return wildcards > 0 and is_at_or_below(prefix, named)


def _queue(queue: Queue, creation: QueueCreation | None) -> policy_pb2.PolicyQueue:
    submit, admin = queue.submit_acl, queue.admin_acl
    creator = creation.creators.get(queue.path) if creation else None
    return policy_pb2.PolicyQueue(
        path=queue.path,
        submit_acl=submit.text,
        admin_acl=admin.text,
        submit_acl_dropped_names=(*submit.dropped_users, *submit.dropped_groups),
        admin_acl_dropped_names=(*admin.dropped_users, *admin.dropped_groups),
        created_levels=creator.levels if creator else 0,
        submit_acl_entries=acl_entries(submit),
    )
