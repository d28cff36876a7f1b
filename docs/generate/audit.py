"""audit-record.md: the keys of a record, with records that the server's code makes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from docs.generate.markdown import code, page, table
from queuegate._types import StaleDecision
from queuegate.decision_record import Record
from queuegate.gate.local_record import local_record
from queuegate.policy.decision import NO_MATCH, Access, Decision, Reason
from queuegate.policy.tree import Policy
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.admission.queues.model import QueueReview, RequiredCheck
from queuegate_server.admission.queues.records import (
    CALLER,
    METHOD,
    check_fields,
    review_fields,
)
from queuegate_server.decisions.log import DecidedCheck
from queuegate_server.engine import ServedPartition, Snapshot
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from queuegate_server.rpc.call_log import request_fields
from queuegate_server.settings.queue_schedulers import Mode

_INTRODUCTION: Final = """\
The [audit log](../how-to/audit-log.md) is UTF-8 text with one JSON object per line. Each decision
is one record, including each check in a batch or a column request, and the decision of an
`Explain…` call. `ListQueues` and `ListUsers` are not recorded, nor are calls that are rejected
before a decision, for example because there are too many or the caller lacks the role. With
`records: denials`, allowed requests are not recorded. The admission webhook's decisions about each
queue that an object names are recorded as well. A
[gate](../how-to/decide-in-the-shim.md#with-an-audit-log) passes records with the same keys to its
own program; those records are not in the server's log.
"""
_EXAMPLES: Final = """\
## Examples

A denial, a request about an application, a request that could not be decided, a decision by the
admission webhook, one under RBAC, and one that a gate reported to its program:
"""
_RBAC: Final = b"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: queue-user}
rules: [{apiGroups: [kueue.x-k8s.io], resources: [localqueues], verbs: [use]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: ml}
roleRef: {kind: ClusterRole, name: queue-user}
subjects: [{kind: Group, name: ml-team}]
"""
_TIME: Final = 1_795_270_515.701522
_KEYS: Final[Mapping[str, str]] = {
    "time": "When the request was decided: UTC, RFC 3339, with microseconds.",
    "caller": "`loopback`, `unix`, `token:NAME` or `certificate:NAME`, as in"
    " [`callers`](settings.md#callers); `webhook` for the admission webhook,"
    " and `gate:NAME` for a gate's program.",
    "method": "The [call](api.md#queuegatev1accessservice), also for a gate;"
    " `AdmissionReview` for the admission webhook, and `SubjectAccessReview` for its `/authorize`"
    " endpoint.",
    "user": "The user in the request. Absent if a batch was rejected as a whole.",
    "partition": "The partition in the request; `default` if it named none.",
    "groups_in_request": "How many groups the request contained; 0 if it said that the user has"
    " none. Absent if it said nothing about groups.",
    "object_kind": "The kind and API group of the object that names the queue, such as `Job.batch`."
    " Only for reviews of the admission webhook, like all keys up to `unverified`.",
    "object_namespace": "The object's namespace; empty outside namespaces.",
    "object_name": "The object's name; empty if the API server generates it.",
    "dry_run": "`true` if the API server will not store the object. Otherwise absent.",
    "unverified": "`true` if the webhook's client did not present a certificate: anyone who can"
    " connect may have made up the user and the object. Otherwise absent.",
    "scheduler": "The [scheduler](settings.md#admissionqueuesschedulers) that reads the name,"
    " `places[N]` for one of your own places, `unqueued` for an object that names no queue, or"
    " `authorize` for a question from `kubectl auth can-i`. Only for the admission webhook,"
    " like `mode`.",
    "mode": "`deny`; `warn` if the object is accepted nevertheless; `off` if the decision is not"
    " about an object.",
    "queue": "The queue in the request, or the application's queue. Empty if the name in an object"
    " cannot be a queue name.",
    "access": "`submit` or `admin`. Only for queues.",
    "action": "`view`, `view_logs`, `modify`, `move` or `admin`. Only for applications.",
    "owner": "The application's owner; with Spark, the user for whom it runs.",
    "target_queue": "The queue to which the application would be moved; empty if none.",
    "decision": "`allowed`, `denied`, or `error` if the request could not be decided.",
    "reason": "Why, in lower case: the decision's [reason](api.md#reason), or the"
    " [error's](errors.md).",
    "matched_queue": "The queue whose ACL matched; empty if none did. Absent with `error`.",
    "matched_name": "The user or group that matched, or `*`. Absent with `error`.",
    "revision": "The revision of the policy that decided. Absent with `error`.",
    "origins": "Under [Kubernetes RBAC](rbac.md), up to ten bindings that name the user or group,"
    " each with its role. Absent with other policies, if nothing matched, in a gate's record,"
    " and if the policy was replaced before the record was written.",
    "stale": "`true` if the gate decided [without a"
    " lease](../how-to/decide-in-the-shim.md#limits-of-the-guarantee). Otherwise absent.",
}


def generate() -> str:
    """Return the page."""
    examples = [_denial(), _application(), _error(), _object(), _rbac(), _local()]
    # Every record has keys that are described, in this order.
    for record in examples:
        assert list(record) == [key for key in _KEYS if key in record]
    assert set().union(*examples) == set(_KEYS)
    return page(
        "Audit record",
        _INTRODUCTION,
        _table(_KEYS),
        _EXAMPLES,
        _block(*map(_line, examples)),
    )


def _table(keys: Mapping[str, str]) -> str:
    return table(("key", "meaning"), ((code(key), text) for key, text in keys.items()))


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":"))


def _block(*lines: str) -> str:
    return "\n".join(["```jsonl", *lines, "```"])


def _question(user: str, queue: str, groups: Sequence[str] = ()) -> Record:
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user, groups=groups),
        queue=queue,
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    return request_fields("CheckQueueAccess", request.SerializeToString())


def _denial() -> Record:
    return DecidedCheck(
        "CheckQueueAccess",
        _TIME,
        "certificate:dns:scheduler.example.com",
        _question("john", "root.sandbox", groups=("dev", "ops")),
        NO_MATCH,
        revision=1,
    ).record()


def _application() -> Record:
    request = access_pb2.CheckApplicationAccessRequest(
        user=UserGroupInformation(user="jane"),
        partition="hadoop",
        application=access_pb2.Application(queue="root.marketing", owner="john"),
        action=access_pb2.APPLICATION_ACTION_MODIFY,
    )
    return DecidedCheck(
        "CheckApplicationAccess",
        _TIME,
        "token:gateway",
        request_fields("CheckApplicationAccess", request.SerializeToString()),
        Decision(True, Reason.USER, "root.marketing", "jane"),
        revision=1,
    ).record()


def _error() -> Record:
    question = _question("mary", "root.training")
    return DecidedCheck(
        "CheckQueueAccess", _TIME, "unix", question, "resolver_unavailable"
    ).record()


def _rbac() -> Record:
    partition, _ = load_rbac(_RBAC, "rbac.yaml", RbacOptions())
    assert partition is not None
    served = ServedPartition(partition, cast("Any", None), trust_provided_groups=True)
    snapshot = Snapshot(Policy({"default": partition}, revision=1), {"default": served}, _TIME)
    return DecidedCheck(
        "CheckQueueAccess",
        _TIME,
        "loopback",
        _question("ann", "root.localqueues.ml.training", groups=["ml-team"]),
        Decision(True, Reason.GROUP, "root.localqueues.ml", "ml-team"),
        1,
        lambda: snapshot,
    ).record()


def _local() -> Record:
    queue = "root.analytics.reports"
    decision = StaleDecision(True, Reason.USER, queue, "sue", 1)
    return local_record(
        _TIME, "shim-7f9c/4711", ("sue", queue, "default", "submit", None, ""), decision
    )


def _object() -> Record:
    review = QueueReview(
        *("", "batch", "Job", "", "CREATE", "training", "night-run", "bob", (), None, None),
        dry_run=True,
    )
    path = "root.namespaces.training.gpu"
    check = RequiredCheck("kueue", "gpu", "", path, Access.SUBMIT, Mode.WARN)
    fields = review_fields(review, "default", verified=False) | check_fields(check)
    return DecidedCheck(METHOD, _TIME, CALLER, fields, NO_MATCH, revision=1).record()
