"""Converts domain results to protobuf messages."""

import bisect
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from queuegate.policy.acl import Acl
from queuegate.policy.decide import evaluated_instead
from queuegate.policy.decision import OUTCOMES, Access, Decision
from queuegate.policy.explain import Explanation, Step, StepOutcome
from queuegate.policy.names import SEPARATOR
from queuegate.policy.reach import Grant, SubjectKind
from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2, cursor_pb2, policy_pb2, user_groups_pb2
from queuegate_server.engine import E, ExplainResult, GroupsOrigin, Query
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.yarn.templates import template_property
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.sync.barrier import StaleGate

R = TypeVar("R", access_pb2.CheckQueueAccessResponse, access_pb2.CheckApplicationAccessResponse)

REASONS: Final = {reason: access_pb2.Reason.Value(f"REASON_{reason.name}") for reason in OUTCOMES}
REASON_OF: Final = {number: reason for reason, number in REASONS.items()}
ACCESS_TYPES: Final = {
    None: access_pb2.ACCESS_TYPE_UNSPECIFIED,
    Access.SUBMIT: access_pb2.ACCESS_TYPE_SUBMIT,
    Access.ADMIN: access_pb2.ACCESS_TYPE_ADMIN,
}
LOOKUP_OUTCOMES: Final = {
    KnownUser: user_groups_pb2.RESOLVE_OUTCOME_RESOLVED,
    NoSuchUser: user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND,
    LookupFailure: user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE,
}
_ORIGINS: Final = {
    origin: access_pb2.GroupsOrigin.Value(f"GROUPS_ORIGIN_{origin.name}") for origin in GroupsOrigin
}
_OUTCOMES: Final = {
    outcome: access_pb2.StepOutcome.Value(f"STEP_OUTCOME_{outcome.name}") for outcome in StepOutcome
}
_SUBJECT_KINDS: Final = {
    kind: access_pb2.SubjectKind.Value(f"SUBJECT_KIND_{kind.name}") for kind in SubjectKind
}
_MAX_UINT64: Final = 2**64 - 1
MAX_ENTRIES: Final = 100
"""The maximum number of entries in the explanation of an ACL that is built from role bindings."""
_SEVERITIES: Final = {
    severity: policy_pb2.Severity.Value(f"SEVERITY_{severity.name}")
    for severity in (Severity.ERROR, Severity.WARNING)
}


def decision_message(
    message: type[R], decision: Decision, evaluated_queue: str, revision: int
) -> R:
    """Build a check response from a decision, the evaluated queue and the policy's revision."""
    allowed, reason, matched_queue, matched_subject = decision
    return message(
        allowed=allowed,
        reason=REASONS[reason],
        matched_queue=matched_queue,
        matched_subject=matched_subject,
        policy_revision=revision,
        evaluated_queue=evaluated_queue,
    )


def explanation_message(
    query: Query, result: ExplainResult[Explanation], revision: int
) -> access_pb2.ExplainQueueAccessResponse:
    """Build the response to an explain request."""
    decision = result.decision
    instead = evaluated_instead(query.served.partition, query.path, decision)
    check = access_pb2.CheckQueueAccessResponse
    return access_pb2.ExplainQueueAccessResponse(
        decision=decision_message(check, decision, instead, revision),
        steps=[_step(step) for step in result.evaluation.steps],
        groups=explain_groups(result),
        evaluated_queue=result.evaluation.evaluated_queue,
        will_be_created=result.evaluation.will_be_created,
        is_parent=_is_parent(query.served.partition, query.path),
    )


def _is_parent(partition: Partition, path: str) -> bool:
    """Return whether a queue is marked as a parent, or queues exist or will be created below it."""
    if path in partition.childless_parents or (
        partition.creation and path in partition.creation.creators
    ):
        return True
    below = f"{path}{SEPARATOR}"
    position = bisect.bisect_left(partition.paths, below)
    return any(each.startswith(below) for each in partition.paths[position : position + 1])


def explain_groups(result: ExplainResult[E]) -> access_pb2.ExplainGroups:
    """Build a message with the groups on which a decision is based, and their origin."""
    return access_pb2.ExplainGroups(
        origin=_ORIGINS[result.origin],
        groups=result.groups,
        resolver=result.resolver,
        detail=result.detail,
    )


def diagnostics(items: Iterable[Diagnostic]) -> list[policy_pb2.Diagnostic]:
    """Convert diagnostics to messages."""
    return [
        policy_pb2.Diagnostic(
            severity=_SEVERITIES[diagnostic.severity],
            line=diagnostic.line,
            column=diagnostic.column,
            queue=diagnostic.queue,
            message=diagnostic.message,
            remedy=diagnostic.remedy,
            file=diagnostic.file,
        )
        for diagnostic in items
    ]


def grant_message(grant: Grant, nested: Iterable[str] = ()) -> access_pb2.AccessGrant:
    """Convert a grant; `nested` lists the groups between the granted group and the user."""
    return access_pb2.AccessGrant(
        queue=grant.queue,
        acl=ACCESS_TYPES[grant.acl],
        kind=_SUBJECT_KINDS[grant.kind],
        name=grant.name,
        nested=nested,
        origins=grant.origins,
    )


def acl_entries(acl: Acl, first: str = "") -> Iterator[access_pb2.AclEntry]:
    """Yield the entries of an ACL that is built from role bindings, starting with the one named
    `first`.
    """
    kinds = ((SubjectKind.USER, acl.origins.users), (SubjectKind.GROUP, acl.origins.groups))
    entries = [(kind, name, origins) for kind, names in kinds for name, origins in names.items()]
    for kind, name, origins in sorted(entries, key=lambda each: (each[1] != first, each)):
        yield access_pb2.AclEntry(kind=_SUBJECT_KINDS[kind], name=name, origins=origins)


def timestamp(wall_seconds: float) -> Timestamp:
    """Convert wall-clock seconds to a Timestamp."""
    message = Timestamp()
    message.FromNanoseconds(int(wall_seconds * 1e9))
    return message


def stale_gates(gates: Iterable[StaleGate]) -> list[cursor_pb2.StaleGate]:
    """Convert callers that may still use old state."""
    return [
        cursor_pb2.StaleGate(
            name=name, remaining_millis=min(math.ceil(seconds * 1_000), _MAX_UINT64)
        )
        for name, seconds in gates
    ]


def _step(step: Step) -> access_pb2.ExplainStep:
    acl = step.acl or Acl()
    entries = [*islice(acl_entries(acl, step.matched_subject), MAX_ENTRIES)]
    return access_pb2.ExplainStep(
        queue=step.queue,
        acl=ACCESS_TYPES[step.kind],
        acl_text=acl.text,
        outcome=_OUTCOMES[step.outcome],
        matched_subject=step.matched_subject,
        dropped_names=(*acl.dropped_users, *acl.dropped_groups),
        entries=entries,
        further_entries=len(acl.origins) - len(entries),
        template_property=""
        if step.template is None or step.kind is None
        else template_property(step.template.path, step.template.kind, step.kind),
    )
