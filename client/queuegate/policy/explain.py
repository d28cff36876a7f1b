"""Explains decisions by listing the evaluated ACLs and their outcomes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from queuegate.policy.acl import Acl
from queuegate.policy.chain import CLUSTER
from queuegate.policy.created_queues import Template
from queuegate.policy.decide import decide
from queuegate.policy.decision import ACLS_DISABLED, Access, Decision, Reason
from queuegate.policy.names import RECOVERY_QUEUE, is_recovery_path, shared_name
from queuegate.policy.queue import granting
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn


class StepOutcome(StrEnum):
    """The outcome of evaluating an ACL."""

    UNSPECIFIED = auto()
    """An outcome from a server newer than this client."""
    WILDCARD = auto()
    """The ACL allows everyone."""
    USER = auto()
    """The ACL lists the user."""
    GROUP = auto()
    """The ACL lists one of the user's groups."""
    NO_MATCH = auto()
    """The ACL lists neither the user nor any of the user's groups."""
    EMPTY = auto()
    """The ACL is missing or empty, and grants nothing."""
    RECOVERY_QUEUE = auto()
    """Nobody may submit to the recovery queue; no ACL was evaluated."""
    ACLS_DISABLED = auto()
    """The cluster does not enforce ACLs."""
    CLUSTER_ADMIN = auto()
    """The user, or one of the user's groups, administers the cluster."""


GRANTED = {
    Reason.WILDCARD: StepOutcome.WILDCARD,
    Reason.USER: StepOutcome.USER,
    Reason.GROUP: StepOutcome.GROUP,
    Reason.CLUSTER_ADMIN: StepOutcome.CLUSTER_ADMIN,
}


@dataclass(frozen=True, slots=True)
class Step:
    """An evaluated ACL, or the rule that applied instead (recovery queue or disabled ACLs)."""

    queue: str
    """The queue path; empty for the ACL of the cluster's administrators."""
    kind: Access | None
    """The kind of ACL; None for a rule."""
    acl: Acl | None
    """The parsed ACL; None for a rule."""
    outcome: StepOutcome
    matched_subject: str = ""
    template: Template | None = None
    """The template that sets the ACL, if the queue does not exist yet."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, with the ACLs evaluated to reach it."""

    decision: Decision | None
    """The result of `decide`; None if it depends on unknown groups."""
    evaluated_queue: str
    """The queue if it exists or will be created, otherwise its nearest existing ancestor."""
    steps: tuple[Step, ...]
    will_be_created: bool = False
    """Whether YARN will create the queue on submission."""


def explain(
    partition: Partition,
    path: str,
    access: Access,
    user: str,
    groups: Sequence[str] | None,
    *,
    real_user: str = "",
) -> Explanation:
    """Explain the decision that `decide` returns for the same arguments."""
    decision = decide(partition, path, access, user, groups, real_user=real_user)
    if decision is ACLS_DISABLED:
        step = Step("", None, None, StepOutcome.ACLS_DISABLED)
        return Explanation(decision, partition.nearest(path).path, (step,))
    if access is Access.SUBMIT and partition.cluster is None and is_recovery_path(path):
        step = Step(RECOVERY_QUEUE, None, None, StepOutcome.RECOVERY_QUEUE)
        return Explanation(decision, RECOVERY_QUEUE, (step,))
    evaluated = partition.nearest(path).path
    templates = {
        (acls.path, kind): template
        for acls in partition.created_acls(path)
        for kind, template in (
            (Access.SUBMIT, acls.submit_template),
            (Access.ADMIN, acls.admin_template),
        )
    }
    steps = []
    for queue, kind, acl in _acls_upwards(partition, evaluated, access):
        granted = _outcome_if_granted(decision, queue, acl)
        template = templates.get((queue, kind))
        if granted and decision:
            steps.append(Step(queue, kind, acl, granted, decision.matched_subject, template))
            break
        outcome = StepOutcome.EMPTY if acl.is_empty else StepOutcome.NO_MATCH
        steps.append(Step(queue, kind, acl, outcome, template=template))
    return Explanation(decision, evaluated, tuple(steps), bool(templates))


def ambiguity(partition: Partition, name: str) -> str:
    """Return a message if several queues share a short name; otherwise ""."""
    is_shared = partition.short_names.get(name) == name
    return shared_name(name, partition.paths) if is_shared else ""


def groups_listed_as_users(text: str, groups: Sequence[str]) -> list[str]:
    """Return the groups that an ACL lists as users, usually because a space is missing."""
    # Hadoop also splits names at line breaks. Names in other grammars cannot contain line breaks,
    # so this parser suits all grammars.
    users = parse_yarn(text.partition(" ")[0], Semantics.HADOOP).users
    return sorted(users.intersection(groups))


def _acls_upwards(
    partition: Partition, path: str, access: Access
) -> Iterator[tuple[str, Access, Acl]]:
    for queue in partition.upwards(path):
        for kind in granting(access, Access.SUBMIT, Access.ADMIN):
            if kind is Access.SUBMIT or partition.named_grants is None:
                yield queue.path, kind, queue.acl(kind)
    cluster = partition.cluster
    if cluster and cluster.acls_enabled and cluster.semantics is Semantics.DOCUMENTED:
        yield CLUSTER, Access.ADMIN, cluster.admins


def _outcome_if_granted(decision: Decision | None, queue: str, acl: Acl) -> StepOutcome | None:
    """Return the ACL's outcome if the ACL granted access, otherwise None.

    Access is granted by the matched queue's first ACL that lists the subject.
    """
    if decision is None or not decision.allowed or queue != decision.matched_queue:
        return None
    subject = decision.matched_subject
    holds = {
        Reason.WILDCARD: acl.allows_all,
        Reason.USER: subject in acl.users
        or (subject.startswith("~") and subject[1:] in acl.proxies),
        Reason.GROUP: subject in acl.groups,
        Reason.CLUSTER_ADMIN: True,
    }[decision.reason]
    return GRANTED[decision.reason] if holds else None
