"""Validates requests and converts them to queries.

Each check appends to a list of violations, so that an error reports all violations at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from queuegate.policy.applications import Action
from queuegate.policy.decision import Access
from queuegate.policy.named_grants import KINDS
from queuegate.policy.names import (
    CONTROL_CHARACTER,
    DEFAULT_PARTITION,
    is_user_name,
    queue_path,
)
from queuegate.v1 import access_pb2, user_group_information_pb2
from queuegate_server.engine import Query, ServedPartition, Snapshot
from queuegate_server.rpc.errors import InvalidRequest

MAX_NAME_BYTES: Final = 1_024
"""The maximum size of a name. The Kubernetes name `system:serviceaccount:NAMESPACE:NAME` has up to
339 characters."""
MAX_GROUPS: Final = 10_000
MAX_QUEUE_BYTES: Final = 4_096

Violations = list[tuple[str, str]]
"""Pairs of a field's path and its fault."""

ACCESS: Final[Mapping[int, Access]] = {
    access_pb2.ACCESS_TYPE_SUBMIT: Access.SUBMIT,
    access_pb2.ACCESS_TYPE_ADMIN: Access.ADMIN,
}
ACTIONS: Final[Mapping[int, Action]] = {
    access_pb2.ApplicationAction.Value(f"APPLICATION_ACTION_{action.name}"): action
    for action in Action
}

_MAX_UTF8_BYTES: Final = 4
_MAX_SHORT: Final = MAX_NAME_BYTES // _MAX_UTF8_BYTES
"""Names with up to this many characters cannot exceed MAX_NAME_BYTES. Nearly all names qualify."""
_PRINTABLE_ASCII: Final = bytes(range(0x20, 0x7F))
_NOT_A_PATH: Final = (
    "is not a full queue path: write `root`, or `root.` and names of 1 to 64 characters from"
    " A-Z a-z 0-9 _ : # / @ - joined by dots"
)
_NOT_OF_KUBERNETES: Final = (
    "is not a Kubernetes queue: write root.KIND.NAMESPACE.NAME, such as"
    " root.localqueues.ml.training, or root.KIND.NAME for a kind without namespaces, in lower case,"
    " with _dot_ for each dot in a name and at most 64 characters between dots; the kinds are "
    + ", ".join(kind.level for kind in KINDS)
)
_ONE_VERB: Final = (
    "does not exist in Kubernetes RBAC, where one verb grants the use of a queue: use submit"
)
_NOT_A_YARN_PATH: Final = "is not a queue path: write names joined by dots, none of them empty"
_NOT_A_YUNIKORN_USER: Final = (
    "is not a valid YuniKorn user name, which a request with groups requires: start with a letter"
    " or _, then use letters, digits and :#/_.@-, and optionally end with $; the setting"
    " partitions.NAME.acl_names: any accepts other names"
)


_QueueRequest = access_pb2.CheckQueueAccessRequest | access_pb2.ExplainQueueAccessRequest


def query(request: _QueueRequest, snapshot: Snapshot, *, trusted: bool) -> Query:
    """Validate a check or explain request; return its query.

    Args:
        request: The request.
        snapshot: The policy to evaluate. Its partitions determine which names are valid.
        trusted: Whether to use the caller's asserted groups.

    Raises:
        InvalidRequest: The request is malformed.
        UnknownPartition: The partition does not exist.
    """
    partition_name, real_user, text = request.partition, request.real_user, request.queue
    information = request.user
    user, asserted = information.user, information.groups
    served = snapshot.served.get(partition_name or DEFAULT_PARTITION)
    access = ACCESS.get(request.access)
    if served is None or access is None or information.no_groups or len(asserted) > MAX_GROUPS:
        return query_field_by_field(request, snapshot, trusted=trusted)
    # Check all names together, because they are nearly always short, printable and valid.
    groups = asserted[:]
    optional_names = partition_name + real_user
    partition = served.partition
    if (
        not are_valid_names((user, text, *groups))
        or (optional_names and not is_short_name(optional_names))
        or (path := text if text in partition.queues else partition.canonical_path(text)) is None
        or (groups and not partition.accepts_user(user))
        or partition.named_grants is not None
    ):
        return query_field_by_field(request, snapshot, trusted=trusted)
    is_trusted = groups and trusted and served.trust_provided_groups
    # Twice as fast as the NamedTuple constructor.
    return tuple.__new__(
        Query, (user, groups if is_trusted else None, served, path, access, real_user)
    )


def query_field_by_field(request: _QueueRequest, snapshot: Snapshot, *, trusted: bool) -> Query:
    """Validate each field to list all violations; otherwise the same as `query`, but slower."""
    violations: Violations = []
    served = find_partition(request.partition, snapshot, violations)
    user, groups = user_and_groups(request.user, served, violations)
    path = queue("queue", request.queue, served, violations)
    access = access_kind(request.access, served, violations)
    if real_user := request.real_user:
        check_name("real_user", real_user, violations)
    if violations or served is None or access is None:
        raise InvalidRequest(violations)
    asserted = trusted_groups(user, groups, served, trusted=trusted)
    return Query(user, asserted, served, path, access, real_user)


def list_query(
    request: access_pb2.ListQueuesRequest, snapshot: Snapshot, *, trusted: bool
) -> tuple[Query, str]:
    """Validate a ListQueues request; return the query and the last path of the previous page."""
    violations: Violations = []
    served = find_partition(request.partition, snapshot, violations)
    user, groups = user_and_groups(request.user, served, violations)
    prefix = optional_queue("prefix", request.prefix, served, violations)
    access = access_kind(request.access, served, violations)
    if request.page_size < 0:
        violations.append(("page_size", "is negative"))
    after = optional_queue("page_token", request.page_token, served, violations)
    check_name("real_user", request.real_user, violations)
    if violations or served is None or access is None:
        raise InvalidRequest(violations)
    asserted = trusted_groups(user, groups, served, trusted=trusted)
    return Query(user, asserted, served, prefix, access, request.real_user), after


class UsersQuery(NamedTuple):
    """A validated ListUsers request."""

    served: ServedPartition
    path: str
    """The full queue path, as the partition spells it."""
    access: Access
    page_size: int
    """The requested size; 0 for the default."""
    page_token: str


def users_query(request: access_pb2.ListUsersRequest, snapshot: Snapshot) -> UsersQuery:
    """Validate a ListUsers request. Raises the same exceptions as `query`."""
    violations: Violations = []
    served = find_partition(request.partition, snapshot, violations)
    path = queue("queue", request.queue, served, violations)
    access = access_kind(request.access, served, violations)
    if request.page_size < 0:
        violations.append(("page_size", "is negative"))
    if violations or served is None or access is None:
        raise InvalidRequest(violations)
    return UsersQuery(served, path, access, request.page_size, request.page_token)


def is_valid_user_name(name: str) -> bool:
    """Return whether a request may contain the given user name."""
    violations: Violations = []
    check_required_name("user.user", name, violations)
    # Names from a directory may contain lone surrogates, decoded from invalid UTF-8. Requests
    # cannot contain them.
    return not violations and not any("\ud800" <= char <= "\udfff" for char in name)


def trusted_groups(
    user: str, groups: Sequence[str] | None, served: ServedPartition, *, trusted: bool
) -> Sequence[str] | None:
    """Return the user's effective groups if they are known without a lookup; None to look them up.

    These are the asserted groups, if the partition and the caller's rights allow them.
    """
    asserted = groups if trusted and served.trust_provided_groups else None
    return served.partition.counting_groups(user, asserted)


def find_partition(
    name: str, snapshot: Snapshot, violations: Violations, *, to_show: bool = False
) -> ServedPartition | None:
    """Return the named partition, or None if the name is malformed. Raises UnknownPartition and,
    unless `to_show` is set, PolicyTooOld.

    Call this before all other checks, because the partition determines which values are valid.
    """
    if name:
        check_name("partition", name, violations)
        if violations:
            return None
    return snapshot.named(name) if to_show else snapshot.find(name)


def check_required_name(field: str, name: str, violations: Violations) -> None:
    """Add a violation if a required name is missing or invalid."""
    if not name:
        violations.append((field, "is required"))
    else:
        check_name(field, name, violations)


def check_name(field: str, text: str, violations: Violations) -> None:
    """Add a violation if a name is too long or contains control characters."""
    if is_short_name(text):
        return
    if _is_longer(text, MAX_NAME_BYTES):
        violations.append((field, f"is longer than {MAX_NAME_BYTES} bytes"))
    elif CONTROL_CHARACTER.search(text):
        violations.append((field, "has a control character"))


def is_short_name(text: str) -> bool:
    """Return whether a name is short and printable. Nearly all names are."""
    return len(text) <= _MAX_SHORT and text.isprintable()


def are_valid_names(names: Sequence[str]) -> bool:
    """Return whether all names are short, printable and not empty. Takes only a few calls."""
    joined = "".join(names)
    is_short = len(joined) <= _MAX_SHORT or max(map(len, names)) <= _MAX_SHORT
    return is_short and _is_printable(joined) and all(names)


def _is_printable(text: str) -> bool:
    if text.isascii():
        # A tenth of the cost of `isprintable`.
        return not text.encode().translate(None, _PRINTABLE_ASCII)
    return text.isprintable()


def raise_if(violations: Violations) -> None:
    """Raise InvalidRequest if there are violations."""
    if violations:
        raise InvalidRequest(violations)


def user_and_groups(
    information: user_group_information_pb2.UserGroupInformation,
    served: ServedPartition | None,
    violations: Violations,
) -> tuple[str, Sequence[str] | None]:
    """Check a request's user and asserted groups; return both, with None for unspecified groups."""
    user = information.user
    check_required_name("user.user", user, violations)
    asserted = information.groups
    if information.no_groups and asserted:
        violations.append(("user.no_groups", "must not be set together with groups"))
    grants = served.partition.named_grants if served else None
    if grants is not None:
        _refuse_prefixed("user.user", [user], "users_prefix", grants.users_prefix, violations)
        _refuse_prefixed("user.groups", asserted, "groups_prefix", grants.groups_prefix, violations)
        user = grants.user(user)
    if not (asserted or information.no_groups):
        return user, None
    if user and not (served.partition.accepts_user(user) if served else is_user_name(user)):
        # YuniKorn's ConvertUGI validates user names only in requests that contain groups.
        violations.append(("user.user", _NOT_A_YUNIKORN_USER))
    if len(asserted) > MAX_GROUPS:
        violations.append(("user.groups", f"has more than {MAX_GROUPS} groups"))
        return user, ()
    groups = asserted[:]
    if not groups:
        return user, ()
    # First check all groups together, because they are nearly always valid.
    if not are_valid_names(groups):
        for index, group in enumerate(groups):
            if not group:
                violations.append((f"user.groups[{index}]", "is empty"))
            else:
                check_name(f"user.groups[{index}]", group, violations)
    return user, groups


def _refuse_prefixed(
    field: str, names: Sequence[str], setting: str, prefix: str, violations: Violations
) -> None:
    """Add a violation if a name already has a prefix, because its meaning would be ambiguous."""
    if prefix and any(name.startswith(prefix) for name in names):
        text = f"begins with {prefix}, which policy.kubernetes.{setting} adds: write the name"
        violations.append((field, f"{text} without it"))


def queue(field: str, text: str, served: ServedPartition | None, violations: Violations) -> str:
    """Check a required queue path; return its canonical spelling, or "" if it is invalid."""
    if not text:
        violations.append((field, "is required"))
        return ""
    if _is_longer(text, MAX_QUEUE_BYTES):
        violations.append((field, f"is longer than {MAX_QUEUE_BYTES} bytes"))
        return ""
    is_yarn = served is not None and served.partition.cluster is not None
    if is_yarn and CONTROL_CHARACTER.search(text):
        violations.append((field, "has a control character"))
        return ""
    path = served.partition.canonical_path(text) if served else queue_path(text)
    if path is None:
        is_rbac = served is not None and served.partition.named_grants is not None
        fault = _NOT_OF_KUBERNETES if is_rbac else _NOT_A_PATH
        violations.append((field, _NOT_A_YARN_PATH if is_yarn else fault))
        return ""
    return path


def optional_queue(
    field: str, text: str, served: ServedPartition | None, violations: Violations
) -> str:
    """Check a queue path like `queue`, but accept an empty path."""
    return queue(field, text, served, violations) if text else ""


def access_kind(
    value: int, served: ServedPartition | None, violations: Violations
) -> Access | None:
    """Check and convert a request's access type; return None if it is invalid."""
    access = ACCESS.get(value)
    if access is None:
        violations.append(("access", "must be ACCESS_TYPE_SUBMIT or ACCESS_TYPE_ADMIN"))
    elif access is Access.ADMIN and served is not None and served.partition.named_grants:
        violations.append(("access", _ONE_VERB))
    return access


def _is_longer(text: str, limit: int) -> bool:
    return len(text) > limit // _MAX_UTF8_BYTES and len(text.encode()) > limit
