"""Protobuf <-> domain: what a request may contain, and what answers look like.

Each check adds to a list, so that a caller learns of all faults at once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from queuegate.policy.decision import Access, Decision, Reason
from queuegate.policy.names import is_user_name, queue_path
from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2, policy_pb2, user_group_information_pb2
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.questions import E, Explained, GroupsOrigin, Query
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.snapshot import Snapshot

MAX_NAME_BYTES: Final = 1_024
"""Those of Kubernetes get long: `system:serviceaccount:`, a namespace and a name have up to 339."""
MAX_GROUPS: Final = 10_000
MAX_QUEUE_BYTES: Final = 4_096
MAX_BATCH: Final = 10_000
MAX_USERS: Final = 10_000

Violations = list[tuple[str, str]]

_SURELY_SHORT: Final = MAX_NAME_BYTES // 4
"""A name of so many characters is short enough, whatever they are."""

_NOT_A_PATH: Final = (
    "is not a full queue path: `root`, or names of 1 to 64 characters out of"
    " A-Z a-z 0-9 _ : # / @ - joined to `root` by dots"
)
_NOT_A_YARN_PATH: Final = "is not a queue path: names without dots joined by dots"
_NO_YUNIKORN_USER: Final = (
    "is no name that YuniKorn takes together with groups: a letter or _ first, then letters,"
    " digits and :#/_.@-, and at the end perhaps $"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
ACCESS_TYPES: Final = {
    Access.SUBMIT: access_pb2.ACCESS_TYPE_SUBMIT,
    Access.ADMIN: access_pb2.ACCESS_TYPE_ADMIN,
}
ACCESS: Final[Mapping[int, Access]] = {number: access for access, number in ACCESS_TYPES.items()}
REASONS: Final = {
    Reason.WILDCARD: access_pb2.REASON_WILDCARD,
    Reason.USER: access_pb2.REASON_USER,
    Reason.GROUP: access_pb2.REASON_GROUP,
    Reason.NO_MATCH: access_pb2.REASON_NO_MATCH,
    Reason.UNKNOWN_USER: access_pb2.REASON_UNKNOWN_USER,
    Reason.RECOVERY_QUEUE: access_pb2.REASON_RECOVERY_QUEUE,
    Reason.ACLS_DISABLED: access_pb2.REASON_ACLS_DISABLED,
    Reason.CLUSTER_ADMIN: access_pb2.REASON_CLUSTER_ADMIN,
    Reason.OWNER: access_pb2.REASON_OWNER,
}
_ORIGINS: Final = {
    GroupsOrigin.NOT_NEEDED: access_pb2.GROUPS_ORIGIN_NOT_NEEDED,
    GroupsOrigin.REQUEST: access_pb2.GROUPS_ORIGIN_REQUEST,
    GroupsOrigin.RESOLVER: access_pb2.GROUPS_ORIGIN_RESOLVER,
    GroupsOrigin.CACHE: access_pb2.GROUPS_ORIGIN_CACHE,
    GroupsOrigin.STALE_CACHE: access_pb2.GROUPS_ORIGIN_STALE_CACHE,
}
_SEVERITIES: Final = {
    Severity.ERROR: policy_pb2.SEVERITY_ERROR,
    Severity.WARNING: policy_pb2.SEVERITY_WARNING,
}


class _Identified(Protocol):
    @property
    def user(self) -> user_group_information_pb2.UserGroupInformation: ...
    @property
    def partition(self) -> str: ...
    @property
    def access(self) -> access_pb2.AccessType.ValueType: ...
    @property
    def real_user(self) -> str: ...


class _Asking(_Identified, Protocol):
    @property
    def queue(self) -> str: ...


def question(request: _Asking, snapshot: Snapshot) -> Query:
    """Return the question of a check or explain request; raise InvalidRequest,
    UnknownPartition.
    """
    faults: Violations = []
    partition = partition_of(request.partition, snapshot, faults)
    user, groups = who(request.user, partition, faults)
    path = queue_field("queue", request.queue, partition, faults)
    access = _access(request.access, faults)
    check_real_user(request.real_user, faults)
    if faults or access is None:
        raise InvalidRequest(faults)
    return Query(user, groups, request.partition, path, access, request.real_user)


def listing_question(
    request: access_pb2.ListQueuesRequest, snapshot: Snapshot
) -> tuple[Query, str]:
    """Return the question of a list request, its `path` the prefix (empty: none), and the
    path after which the page begins (empty: at the first queue); raise InvalidRequest,
    UnknownPartition.
    """
    faults: Violations = []
    partition = partition_of(request.partition, snapshot, faults)
    user, groups = who(request.user, partition, faults)

    def path_of(field: str, text: str) -> str:
        return queue_field(field, text, partition, faults) if text else ""

    path = path_of("prefix", request.prefix)
    access = _access(request.access, faults)
    if request.page_size < 0:
        faults.append(("page_size", "is negative"))
    after = path_of("page_token", request.page_token)
    check_real_user(request.real_user, faults)
    if faults or access is None:
        raise InvalidRequest(faults)
    asked = Query(user, groups, request.partition, path, access, request.real_user)
    return asked, after


def prefix_path(prefix: str, partition: Partition) -> str:
    """Return a queue prefix as the partition spells paths, empty for none; raise
    InvalidRequest.
    """
    faults: Violations = []
    path = queue_field("prefix", prefix, partition, faults) if prefix else ""
    raise_if(faults)
    return path


def partition_of(name: str, snapshot: Snapshot, faults: Violations) -> Partition | None:
    """Return the partition of a name, None if it is no name; raise UnknownPartition.

    It comes before all else: what is well-formed in a request is for the partition to say.
    """
    before = len(faults)
    check_partition(name, faults)
    return snapshot.find(name).partition if len(faults) == before else None


def check_partition(partition: str, faults: Violations) -> None:
    """Check a partition name; empty means the default one."""
    if partition:
        _name("partition", partition, faults)


def check_user(field: str, user: str, faults: Violations) -> None:
    """Check a user name that is to be looked up."""
    if not user:
        faults.append((field, "is required"))
    else:
        _name(field, user, faults)


def check_real_user(real_user: str, faults: Violations) -> None:
    """Check the name of the service that acts for a user; empty means none."""
    if real_user:
        _name("real_user", real_user, faults)


def raise_if(faults: Violations) -> None:
    """Raise InvalidRequest if anything is wrong."""
    if faults:
        raise InvalidRequest(faults)


def who(
    user: user_group_information_pb2.UserGroupInformation,
    partition: Partition | None,
    faults: Violations,
) -> tuple[str, Sequence[str]]:
    """Check who asks in a partition (None: an unknown one); return the name and the given
    groups.
    """
    name = user.user
    groups: Sequence[str] = tuple(user.groups)
    check_user("user.user", name, faults)
    if not groups:
        return name, groups
    of_yarn = partition is not None and partition.cluster is not None
    if name and not of_yarn and not is_user_name(name):
        # As YuniKorn's ConvertUGI: a name is checked where its groups are not looked up.
        faults.append(("user.user", _NO_YUNIKORN_USER))
    if len(groups) > MAX_GROUPS:
        faults.append(("user.groups", f"has more than {MAX_GROUPS} groups"))
        return name, groups
    # All at once where all are well, which is nearly always.
    if (
        "" in groups
        or len(max(groups, key=len)) > _SURELY_SHORT
        or _CONTROL.search("".join(groups))
    ):
        for index, group in enumerate(groups):
            if not group:
                faults.append((f"user.groups[{index}]", "is empty"))
            else:
                _name(f"user.groups[{index}]", group, faults)
    return name, groups


def _name(field: str, text: str, faults: Violations) -> None:
    if len(text) > _SURELY_SHORT and len(text.encode()) > MAX_NAME_BYTES:
        faults.append((field, f"is longer than {MAX_NAME_BYTES} bytes"))
    elif _CONTROL.search(text):
        faults.append((field, "has a control character"))


def queue_field(field: str, text: str, partition: Partition | None, faults: Violations) -> str:
    """Check a queue; return its path as the partition (None: an unknown one) spells it."""
    if not text:
        faults.append((field, "is required"))
        return ""
    if len(text) > MAX_QUEUE_BYTES // 4 and len(text.encode()) > MAX_QUEUE_BYTES:
        faults.append((field, f"is longer than {MAX_QUEUE_BYTES} bytes"))
        return ""
    of_yarn = partition is not None and partition.cluster is not None
    if of_yarn and _CONTROL.search(text):
        faults.append((field, "has a control character"))
        return ""
    path = partition.path(text) if partition else queue_path(text)
    if path is None:
        faults.append((field, _NOT_A_YARN_PATH if of_yarn else _NOT_A_PATH))
        return ""
    return path


def _access(value: int, faults: Violations) -> Access | None:
    access = ACCESS.get(value)
    if access is None:
        faults.append(("access", "must be ACCESS_TYPE_SUBMIT or ACCESS_TYPE_ADMIN"))
    return access


def decision_message(decision: Decision, revision: int) -> access_pb2.CheckQueueAccessResponse:
    """Return the answer to a question."""
    return access_pb2.CheckQueueAccessResponse(
        allowed=decision.allowed,
        reason=REASONS[decision.reason],
        matched_queue=decision.matched_queue,
        matched_subject=decision.matched_subject,
        policy_revision=revision,
    )


def explain_groups(explained: Explained[E]) -> access_pb2.ExplainGroups:
    """Return the groups that a decision used, and where they came from."""
    return access_pb2.ExplainGroups(
        origin=_ORIGINS[explained.origin],
        groups=explained.groups,
        resolver=explained.resolver,
        detail=explained.detail,
    )


def diagnostics(problems: Iterable[Diagnostic]) -> list[policy_pb2.Diagnostic]:
    """Return findings as messages."""
    return [
        policy_pb2.Diagnostic(
            severity=_SEVERITIES[problem.severity],
            line=problem.line,
            column=problem.column,
            queue=problem.queue,
            message=problem.message,
            remedy=problem.remedy,
            file=problem.file,
        )
        for problem in problems
    ]


def timestamp(wall_seconds: float) -> Timestamp:
    """Return a moment, given in wall-clock seconds, as a message."""
    message = Timestamp()
    message.FromNanoseconds(int(wall_seconds * 1e9))
    return message
