"""The page "May X use Y?": the decision, each evaluated ACL, and the groups."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from queuegate import _responses as responses
from queuegate.cli.render import ORIGINS, reason_words
from queuegate.policy.decision import Access
from queuegate.policy.explain import StepOutcome
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.console.attention import failure_of
from queuegate_server.console.commands import Question, command_line, grpcurl
from queuegate_server.console.views import Page, Route, Url, View, Visit, url
from queuegate_server.engine import (
    GroupsUnavailable,
    Snapshot,
    TooManyLookups,
    UnknownPartition,
)
from queuegate_server.formats.acl_positions import AclKey
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.rpc.messages import ACCESS_TYPES

PATH: Final = "access"
MAX_GROUPS: Final = 100
"""The maximum number of groups shown for a user."""
_BETWEEN_NAMES: Final = re.compile(r"[,\s]+")
_OUTCOMES: Final = {
    StepOutcome.WILDCARD: "allows everyone",
    StepOutcome.USER: "lists the user",
    StepOutcome.GROUP: "lists the group",
    StepOutcome.NO_MATCH: "no match",
    StepOutcome.EMPTY: "grants nothing",
    StepOutcome.RECOVERY_QUEUE: "access to the recovery queue is never granted",
    StepOutcome.ACLS_DISABLED: "ACLs are not enforced",
    StepOutcome.CLUSTER_ADMIN: "lists an administrator of the cluster",
}
_UNDECIDED: Final = frozenset({StepOutcome.NO_MATCH, StepOutcome.EMPTY})


class Rung(NamedTuple):
    """An evaluated ACL."""

    acl: Access | None
    text: str
    outcome: str
    subject: str
    decides: bool
    dropped: Sequence[str]
    place: str


class LadderLevel(NamedTuple):
    """The evaluated ACLs of one queue."""

    queue: str
    """Empty for the administrators of the cluster."""
    url: Url
    rungs: Sequence[Rung]


@dataclass(frozen=True, slots=True)
class ShownGroups:
    """The groups used for a decision."""

    origin: str
    names: Sequence[str]
    more: int
    resolver: str
    resolved_at: float
    """In Unix seconds; 0 if the groups were not looked up."""
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer."""

    allowed: bool
    reason: str
    evaluated_queue: str
    """The queue that decided if the requested queue does not exist; else empty."""
    will_be_created: bool
    """Whether the queue does not exist yet and YARN will create it."""
    ladder: Sequence[LadderLevel]
    groups: ShownGroups
    revision: int
    command: str
    grpcurl: str


@dataclass(frozen=True, slots=True)
class AccessModel:
    """The contents of the page."""

    asked: Question
    partitions: Sequence[str]
    groups_text: str
    no_groups: bool
    """Whether the question states that the user has no groups."""
    trusts_groups: bool
    """Whether groups given in the question would be used."""
    error: str
    """A sentence about an invalid question; else empty."""
    unanswered: str
    """Why there is no decision; empty if there is one, or no question was asked."""
    verdict: Verdict | None
    user_url: Url
    queue_url: Url


def _why(visit: Visit, failed: GroupsUnavailable) -> str:
    """Return why there is no decision. Callers of the console may see what Health shows."""
    cause = (
        "" if isinstance(failed, TooManyLookups) else failure_of(visit.services, failed.resolver)
    )
    return str(failed).replace("; see the server's log", f": {cause}") if cause else str(failed)


async def show(visit: Visit) -> View:
    """Show the decision for the user and queue in the URL, if any."""
    query = visit.query
    snapshot = visit.services.engine.snapshot
    groups = tuple(filter(None, _BETWEEN_NAMES.split(query.get("groups", ""))))
    no_groups = "no_groups" in query
    asked = Question(
        user=query.get("user", "").strip(),
        queue=query.get("queue", "").strip(),
        access=visit.access,
        partition=query.get("partition") or DEFAULT_PARTITION,
        groups=groups if groups or no_groups else None,
        real_user=query.get("real_user", "").strip(),
    )
    error = unanswered = ""
    verdict = None
    status = 200
    if groups and no_groups:
        error, status = "Enter groups, or state that the user has no groups, but not both.", 400
    elif asked.user or asked.queue:
        try:
            verdict = await _decide(visit, asked, snapshot)
        except (InvalidRequest, UnknownPartition) as failed:
            error, status = to_status(failed).proto.message, 400
        except GroupsUnavailable as failed:
            unanswered, status = _why(visit, failed), 503
    served = snapshot.served.get(asked.partition)
    model = AccessModel(
        asked=asked,
        partitions=[*snapshot.served],
        groups_text=query.get("groups", ""),
        no_groups=no_groups,
        trusts_groups=visit.trusted and (served is None or served.trust_provided_groups),
        error=error,
        unanswered=unanswered,
        verdict=verdict,
        user_url=url("user", partition=asked.partition, user=asked.user),
        queue_url=url("queues", partition=asked.partition, queue=asked.queue, access=asked.access),
    )
    return View("access.html", "May a user use a queue?", model, status)


async def _decide(visit: Visit, asked: Question, snapshot: Snapshot) -> Verdict:
    request = access_pb2.ExplainQueueAccessRequest(
        user=UserGroupInformation(
            user=asked.user, groups=asked.groups or (), no_groups=asked.groups == ()
        ),
        partition=asked.partition,
        queue=asked.queue,
        access=ACCESS_TYPES[asked.access],
        real_user=asked.real_user,
    )
    answer = access_pb2.ExplainQueueAccessResponse.FromString(
        await visit.services.access.ExplainQueueAccess(
            request.SerializeToString(), trusted=visit.trusted
        )
    )
    explanation = responses.explanation(answer)
    annotations = await visit.services.annotator.annotations(snapshot)
    ladder = []
    for queue, steps in groupby(explanation.steps, key=lambda step: step.queue):
        rungs = [
            Rung(
                step.acl,
                step.acl_text,
                _OUTCOMES.get(step.outcome, str(step.outcome)),
                step.matched_subject,
                step.outcome not in _UNDECIDED,
                step.dropped_names,
                step.template_property
                or annotations.place(AclKey(asked.partition, queue, step.acl)),
            )
            for step in steps
        ]
        link = url("queues", partition=asked.partition, queue=queue, access=asked.access)
        ladder.append(LadderLevel(queue, link, rungs))
    groups = explanation.groups
    entry = None
    if answer.groups.origin >= access_pb2.GROUPS_ORIGIN_RESOLVER:
        entry = snapshot.find(asked.partition).groups.known(asked.user)
    return Verdict(
        allowed=explanation.decision.allowed,
        reason=reason_words(asked.partition, explanation.decision),
        evaluated_queue=explanation.decision.evaluated_queue,
        will_be_created=explanation.will_be_created,
        ladder=ladder,
        groups=ShownGroups(
            origin=ORIGINS[groups.origin],
            names=groups.groups[:MAX_GROUPS],
            more=max(0, len(groups.groups) - MAX_GROUPS),
            resolver=groups.resolver,
            resolved_at=0.0 if entry is None else entry.resolved_at_wall,
            detail=groups.detail,
        ),
        revision=explanation.decision.policy_revision,
        command=command_line(visit, asked),
        grpcurl=grpcurl(visit, asked),
    )


PAGE: Final = Page("Access", PATH, (Route("GET", PATH, show),))
