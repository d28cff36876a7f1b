"""From domain results to protobuf messages and bytes."""

from collections.abc import Iterable
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from queuegate.policy.acl import Acl
from queuegate.policy.decide import evaluated_instead
from queuegate.policy.decision import OUTCOMES, Access, Decision
from queuegate.policy.explain import Explanation, Step, StepOutcome
from queuegate.policy.reach import Grant, SubjectKind
from queuegate.v1 import access_pb2, policy_pb2
from queuegate_server.engine import E, Explained, GroupsOrigin, Query
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.formats.yarn.templates import template_property

REASONS: Final = {reason: access_pb2.Reason.Value(f"REASON_{reason.name}") for reason in OUTCOMES}
REASON_OF: Final = {number: reason for reason, number in REASONS.items()}
DENIED_REASONS: Final = frozenset(
    REASONS[reason] for reason, outcome in OUTCOMES.items() if not outcome.grants
)
ACCESS_TYPES: Final = {
    None: access_pb2.ACCESS_TYPE_UNSPECIFIED,
    Access.SUBMIT: access_pb2.ACCESS_TYPE_SUBMIT,
    Access.ADMIN: access_pb2.ACCESS_TYPE_ADMIN,
}
_ORIGINS: Final = {
    GroupsOrigin.NOT_NEEDED: access_pb2.GROUPS_ORIGIN_NOT_NEEDED,
    GroupsOrigin.REQUEST: access_pb2.GROUPS_ORIGIN_REQUEST,
    GroupsOrigin.RESOLVER: access_pb2.GROUPS_ORIGIN_RESOLVER,
    GroupsOrigin.CACHE: access_pb2.GROUPS_ORIGIN_CACHE,
    GroupsOrigin.STALE_CACHE: access_pb2.GROUPS_ORIGIN_STALE_CACHE,
}
_OUTCOMES: Final = {
    StepOutcome.WILDCARD: access_pb2.STEP_OUTCOME_WILDCARD,
    StepOutcome.USER: access_pb2.STEP_OUTCOME_USER,
    StepOutcome.GROUP: access_pb2.STEP_OUTCOME_GROUP,
    StepOutcome.NO_MATCH: access_pb2.STEP_OUTCOME_NO_MATCH,
    StepOutcome.EMPTY: access_pb2.STEP_OUTCOME_EMPTY,
    StepOutcome.RECOVERY_QUEUE: access_pb2.STEP_OUTCOME_RECOVERY_QUEUE,
    StepOutcome.ACLS_DISABLED: access_pb2.STEP_OUTCOME_ACLS_DISABLED,
    StepOutcome.CLUSTER_ADMIN: access_pb2.STEP_OUTCOME_CLUSTER_ADMIN,
}
_SUBJECT_KINDS: Final = {
    SubjectKind.EVERYONE: access_pb2.SUBJECT_KIND_EVERYONE,
    SubjectKind.USER: access_pb2.SUBJECT_KIND_USER,
    SubjectKind.GROUP: access_pb2.SUBJECT_KIND_GROUP,
    SubjectKind.PROXY: access_pb2.SUBJECT_KIND_PROXY,
}
_SEVERITIES: Final = {
    Severity.ERROR: policy_pb2.SEVERITY_ERROR,
    Severity.WARNING: policy_pb2.SEVERITY_WARNING,
}


def decision_message(
    decision: Decision, evaluated_queue: str, revision: int
) -> access_pb2.CheckQueueAccessResponse:
    """Return the response to a check.

    Args:
        decision: The decision.
        evaluated_queue: As in a Verdict.
        revision: The revision of the policy that decided.
    """
    allowed, reason, matched_queue, matched_subject = decision
    return access_pb2.CheckQueueAccessResponse(
        allowed=allowed,
        reason=REASONS[reason],
        matched_queue=matched_queue,
        matched_subject=matched_subject,
        policy_revision=revision,
        evaluated_queue=evaluated_queue,
    )


def explanation_message(
    query: Query, explained: Explained[Explanation], revision: int
) -> access_pb2.ExplainQueueAccessResponse:
    """Return the response to an explain call."""
    decision = explained.decision
    instead = evaluated_instead(query.served.partition, query.path, decision)
    return access_pb2.ExplainQueueAccessResponse(
        decision=decision_message(decision, instead, revision),
        steps=[_step(step) for step in explained.evaluation.steps],
        groups=explained_groups(explained),
        evaluated_queue=explained.evaluation.evaluated_queue,
        will_be_created=explained.evaluation.will_be_created,
    )


def explained_groups(explained: Explained[E]) -> access_pb2.ExplainGroups:
    """Return the groups that a decision used, and where they came from."""
    return access_pb2.ExplainGroups(
        origin=_ORIGINS[explained.origin],
        groups=explained.groups,
        resolver=explained.resolver,
        detail=explained.detail,
    )


def diagnostics(found: Iterable[Diagnostic]) -> list[policy_pb2.Diagnostic]:
    """Return diagnostics as messages."""
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
        for diagnostic in found
    ]


def grant_message(grant: Grant, nested: Iterable[str] = ()) -> access_pb2.AccessGrant:
    """Return the message of a grant.

    Args:
        grant: The grant.
        nested: The groups between the group of the grant and the user, as in the contract.
    """
    return access_pb2.AccessGrant(
        queue=grant.queue,
        acl=ACCESS_TYPES[grant.acl],
        kind=_SUBJECT_KINDS[grant.kind],
        name=grant.name,
        nested=nested,
    )


def timestamp(wall_seconds: float) -> Timestamp:
    """Return a moment, given in wall-clock seconds, as a message."""
    message = Timestamp()
    message.FromNanoseconds(int(wall_seconds * 1e9))
    return message


def _step(step: Step) -> access_pb2.ExplainStep:
    acl = step.acl or Acl()
    return access_pb2.ExplainStep(
        queue=step.queue,
        acl=ACCESS_TYPES[step.kind],
        acl_text=acl.text,
        outcome=_OUTCOMES[step.outcome],
        matched_subject=step.matched_subject,
        dropped_names=(*acl.dropped_users, *acl.dropped_groups),
        template_property=""
        if step.template is None or step.kind is None
        else template_property(step.template.path, step.template.kind, step.kind),
    )
