"""The services of the contract, whose answers depend on the request, and statuses as sent by a
queuegate server.
"""

# gRPC calls the methods of a servicer by their names in the contract:
# ruff: noqa: N802

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    status_pb2,
    sync_pb2,
    user_groups_pb2,
    user_groups_pb2_grpc,
)

REVISION = 7


def status(
    code: grpc.StatusCode, message: str = "", reason: str = "", *details: Message
) -> status_pb2.Status:
    """Return a status as a queuegate server sends it."""
    result = status_pb2.Status(code=code.value[0], message=message)
    info = error_details_pb2.ErrorInfo(reason=reason, domain="queuegate")
    for detail in (*((info,) if reason else ()), *details):
        packed = AnyMessage()
        packed.Pack(detail)
        result.details.append(packed)
    return result


def decide(request: Any) -> access_pb2.CheckQueueAccessResponse:
    allowed = not request.user.user.startswith("denied")
    return access_pb2.CheckQueueAccessResponse(
        allowed=allowed,
        reason=access_pb2.REASON_USER if allowed else access_pb2.REASON_NO_MATCH,
        matched_queue=request.queue.lower() if allowed else "",
        matched_subject=request.user.user if allowed else "",
        policy_revision=REVISION,
    )


class Access(access_pb2_grpc.AccessServiceServicer):
    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    def CheckQueueAccess(self, request: Any, context: Any) -> Any:
        return decide(request)

    def BatchCheckQueueAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.BatchCheckQueueAccessResponse(
            results=[_batch_result(item) for item in request.checks]
        )

    def CheckQueueAccessColumns(self, request: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "as an older server does")

    def ExplainQueueAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.ExplainQueueAccessResponse(
            decision=decide(request),
            steps=[
                access_pb2.ExplainStep(
                    queue=request.queue,
                    acl=request.access,
                    acl_text="a,b c.d",
                    outcome=access_pb2.STEP_OUTCOME_NO_MATCH,
                    dropped_names=["c.d"],
                )
            ],
            groups=access_pb2.ExplainGroups(
                origin=access_pb2.GROUPS_ORIGIN_CACHE, groups=["g1", "g2"], resolver="corp"
            ),
            evaluated_queue=request.queue,
        )

    def CheckApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.CheckApplicationAccessResponse()

    def BatchCheckApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.BatchCheckApplicationAccessResponse(
            results=[access_pb2.ApplicationCheckResult() for _ in request.checks]
        )

    def ExplainApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.ExplainApplicationAccessResponse()

    def ListQueues(self, request: Any, context: Any) -> Any:
        start = int(request.page_token or 0)
        end = start + min(request.page_size, 2)
        return access_pb2.ListQueuesResponse(
            queues=self._queues[start:end],
            via=[
                access_pb2.AccessGrant(
                    queue=queue,
                    acl=request.access,
                    kind=access_pb2.SUBJECT_KIND_GROUP,
                    name="staff\x1b",
                )
                for queue in self._queues[start:end]
                if request.with_via
            ],
            next_page_token=str(end) if end < len(self._queues) else "",
            policy_revision=REVISION,
        )

    def ListUsers(self, request: Any, context: Any) -> Any:
        start = int(request.page_token or 0)
        group = access_pb2.AccessGrant(
            queue="root.a",
            acl=request.access,
            kind=access_pb2.SUBJECT_KIND_GROUP,
            name="staff\x1b",
            nested=["devs"],
        )
        users = [
            access_pb2.ListedUser(user="alice", via=[group, group], further=3, confirmed=True),
            access_pb2.ListedUser(user="bob\x1b", via=[group], detail="the directory is down"),
            access_pb2.ListedUser(user="carol", via=[group], confirmed=True),
        ]
        is_partial = request.queue == "root.partial"
        return access_pb2.ListUsersResponse(
            users=users[start : start + 2],
            next_page_token="2" if start == 0 else "",
            complete=not is_partial,
            incomplete=["the directory is down"] if is_partial else (),
            unexpanded_groups=[access_pb2.UnexpandedGroup(grant=group)] if is_partial else (),
            policy_revision=REVISION,
        )


def _batch_result(item: Any) -> access_pb2.CheckResult:
    if item.user.user.startswith("faulty"):
        violation = error_details_pb2.BadRequest.FieldViolation(field="queue", description="bad")
        fault = status(
            grpc.StatusCode.INVALID_ARGUMENT,
            "queue: bad",
            "INVALID_FIELD",
            error_details_pb2.BadRequest(field_violations=[violation]),
        )
        return access_pb2.CheckResult(error=fault)
    return access_pb2.CheckResult(decision=decide(item))


class GroupResolver(user_groups_pb2_grpc.UserGroupServiceServicer):
    def ResolveUserGroups(self, request: Any, context: Any) -> Any:
        response = user_groups_pb2.ResolveUserGroupsResponse(
            outcome=user_groups_pb2.RESOLVE_OUTCOME_RESOLVED,
            resolver="corp",
            cached=not request.bypass_cache,
        )
        response.user_group.user = request.user
        response.user_group.groups.extend(["g1", "g2"])
        response.resolved_at.FromSeconds(1_700_000_000)
        return response

    def InvalidateUserGroups(self, request: Any, context: Any) -> Any:
        return user_groups_pb2.InvalidateUserGroupsResponse(dropped=len(request.users) or 1_000)


class Policy(policy_pb2_grpc.PolicyServiceServicer):
    def GetPolicy(self, request: Any, context: Any) -> Any:
        response = policy_pb2.GetPolicyResponse(
            source="queues.yaml",
            revision=REVISION,
            checksum="ABC",
            queues=[policy_pb2.PolicyQueue(path="root", submit_acl="*")],
            resolver="corp",
            partitions=["default", "gpu"],
        )
        response.loaded_at.FromSeconds(1_700_000_000)
        return response

    def ValidatePolicy(self, request: Any, context: Any) -> Any:
        return policy_pb2.ValidatePolicyResponse(
            valid=False,
            diagnostics=[
                policy_pb2.Diagnostic(
                    severity=policy_pb2.SEVERITY_ERROR,
                    line=2,
                    column=3,
                    queue="root.a",
                    message=f"{request.format}: {request.content}",
                    remedy="mend it",
                )
            ],
        )

    def GetFleet(self, request: Any, context: Any) -> Any:
        replica = policy_pb2.FleetReplica(
            name="a",
            state=policy_pb2.REPLICA_STATE_FOLLOWING,
            self=True,
            version="1.0",
            policy_revision=REVISION,
            policy_checksum="C0FFEE",
            gates=2,
            role=policy_pb2.REPLICA_ROLE_SERVER,
            http_addresses=["127.0.0.1:8080", "unix:/run/\x1b[2J"],
        )
        decisions = policy_pb2.QueueDecisions(
            scheduler="kueue\x1b[2J", mode="warn", allowed=4, warned=3, failed=1
        )
        webhook = policy_pb2.FleetReplica(
            name="w",
            state=policy_pb2.REPLICA_STATE_FOLLOWING,
            version="1.0",
            policy_revision=REVISION,
            policy_checksum="C0FFEE",
            role=policy_pb2.REPLICA_ROLE_WEBHOOK,
            queue_decisions=[decisions, policy_pb2.QueueDecisions(scheduler="kai", denied=2)],
        )
        counts = sync_pb2.GateCounts(decided=1, stale=0, fallbacks=2)
        gate = policy_pb2.FleetGate(
            name="rm\x1b[2J", caller="token:rm", agent="yarn/1", stale_millis=1_500, counts=counts
        )
        return policy_pb2.GetFleetResponse(
            replicas=[replica, webhook],
            connected=True,
            agreed=True,
            gates=[gate, policy_pb2.FleetGate(name="old", caller="loopback", replica="a")],
        )

    def ReloadPolicy(self, request: Any, context: Any) -> Any:
        return policy_pb2.ReloadPolicyResponse(succeeded=True, revision=REVISION + 1)
