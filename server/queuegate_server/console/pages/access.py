"""The page "May X use Y?", which shows the decision, each evaluated ACL, and the groups."""

import re
from collections.abc import Sequence
from typing import Final

from queuegate import _responses as responses
from queuegate._types import Step
from queuegate.cli.render import ORIGINS, reason_words
from queuegate.policy.explain import StepOutcome, ambiguity, groups_listed_as_users
from queuegate.policy.names import ROOT
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.console import tree
from queuegate_server.console.attention import failure_of
from queuegate_server.console.commands import AccessQuery, command_line, grpcurl
from queuegate_server.console.views import Page, Route, View, Visit, url
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
"""The maximum number of a user's groups shown."""
_FIELDS: Final = ("user", "access", "partition", "groups", "no_groups", "real_user")
"""The fields of the form, except the queue."""
_BETWEEN_NAMES: Final = re.compile(r"[,\s]+")
_OUTCOMES: Final = {
    StepOutcome.WILDCARD: "allows everyone",
    StepOutcome.USER: "lists the user",
    StepOutcome.GROUP: "lists the group",
    StepOutcome.NO_MATCH: "no match",
    StepOutcome.EMPTY: "grants nothing",
    StepOutcome.RECOVERY_QUEUE: "access to the recovery queue is never granted",
    StepOutcome.ACLS_DISABLED: "ACLs are not enforced (yarn.acl.enable)",
    StepOutcome.CLUSTER_ADMIN: "lists a cluster administrator",
}
_UNDECIDED: Final = frozenset({StepOutcome.NO_MATCH, StepOutcome.EMPTY})


def _explain(visit: Visit, failure: GroupsUnavailable) -> str:
    """Return why there is no decision, including the resolver's last error if it is known."""
    cause = ""
    if not isinstance(failure, TooManyLookups):
        cause = failure_of(visit.services, failure.resolver)
    text = str(failure)
    return text.replace("; see the server's log", f": {cause}") if cause else text


async def queue_names(visit: Visit) -> View:
    """Return options for the queue field: the paths that contain the text in the URL."""
    partition = visit.services.core.engine.snapshot.find(visit.partition).partition
    paths, _ = await tree.search(partition, visit.query.get("queue", "").strip())
    return View("queue_names.html", "Queues", {"paths": paths})


async def show(visit: Visit) -> View:
    """Show the decision for the user and queue in the URL, if any."""
    query = visit.query
    snapshot = visit.services.core.engine.snapshot
    groups = tuple(filter(None, _BETWEEN_NAMES.split(query.get("groups", ""))))
    no_groups = "no_groups" in query
    asked = AccessQuery(
        user=query.get("user", "").strip(),
        queue=query.get("queue", "").strip(),
        access=visit.access,
        partition=visit.partition,
        groups=groups if groups or no_groups else None,
        real_user=query.get("real_user", "").strip(),
    )
    error = unanswered = ""
    verdict = None
    similar = ""
    status = 200
    if groups and no_groups:
        error, status = "Enter groups, or state that the user has no groups, but not both.", 400
    elif asked.user or asked.queue:
        try:
            verdict = await _decide(visit, asked, snapshot)
            similar = await _similar_queue(snapshot, asked)
        except (InvalidRequest, UnknownPartition) as failure:
            error, status = to_status(failure).proto.message, 400
            similar = await _similar_queue(snapshot, asked)
        except GroupsUnavailable as failure:
            unanswered, status = _explain(visit, failure), 503
    served = snapshot.served.get(asked.partition)
    page = {
        "asked": asked,
        "partitions": [*snapshot.served],
        "groups_text": query.get("groups", ""),
        "no_groups": no_groups,
        "trusts_groups": visit.trusted and (served is None or served.trust_provided_groups),
        "error": error,
        "unanswered": unanswered,
        "verdict": verdict,
        "similar": similar,
        "similar_url": url(
            PATH,
            **{name: value for name, value in query.items() if name in _FIELDS},
            queue=similar,
        ),
        "names_url": url(f"{PATH}/queues"),
        "user_url": url("user", partition=asked.partition, user=asked.user),
        "queue_url": url(
            "queues", partition=asked.partition, queue=asked.queue, access=asked.access
        ),
    }
    return View("access.html", "May a user use a queue?", page, status)


async def _similar_queue(snapshot: Snapshot, asked: AccessQuery) -> str:
    """Return the existing queue that the user probably meant, if the requested one is missing."""
    served = snapshot.served.get(asked.partition)
    if served is None or not asked.queue:
        return ""
    partition = served.partition
    path = partition.canonical_path(asked.queue)
    if path is not None and (path in partition.queues or partition.creates(path)):
        return ""
    above = ROOT if path is None else partition.nearest_path(path)
    if above not in partition.queues:
        return ""  # several queues share the short name
    return await tree.similar(partition, asked.queue, above)


async def _decide(visit: Visit, asked: AccessQuery, snapshot: Snapshot) -> dict[str, object]:
    """Return the explained decision. Raises the same exceptions as `Engine.explain`."""
    request = access_pb2.ExplainQueueAccessRequest(
        user=UserGroupInformation(
            user=asked.user, groups=asked.groups or (), no_groups=asked.groups == ()
        ),
        partition=asked.partition,
        queue=asked.queue,
        access=ACCESS_TYPES[asked.access],
        real_user=asked.real_user,
    )
    response = access_pb2.ExplainQueueAccessResponse.FromString(
        await visit.services.access.ExplainQueueAccess(
            request.SerializeToString(), trusted=visit.trusted
        )
    )
    explanation = responses.explanation(response)
    annotations = await visit.services.annotator.annotations(snapshot)
    partition = snapshot.find(asked.partition).partition.name
    acls = [
        {
            "step": step,
            "outcome": _describe_outcome(step, explanation.groups.groups),
            "decides": step.outcome not in _UNDECIDED,
            "place": step.template_property
            or "\n".join(step.entries[0].origins if step.entries else ())
            or (step.acl and annotations.place(AclKey(partition, step.queue, step.acl))),
            "queue_url": url(
                "queues", partition=asked.partition, queue=step.queue, access=asked.access
            ),
        }
        for step in explanation.steps
    ]
    entry = None
    if response.groups.origin >= access_pb2.GROUPS_ORIGIN_RESOLVER:
        entry = snapshot.find(asked.partition).groups.known(asked.user)
    return {
        "explanation": explanation,
        "ambiguity": ambiguity(snapshot.find(asked.partition).partition, asked.queue),
        "reason": reason_words(asked.partition, explanation.decision),
        "acls": acls,
        "origin": ORIGINS[explanation.groups.origin],
        "max_groups": MAX_GROUPS,
        "resolved_at": 0.0 if entry is None else entry.resolved_at_wall,
        "command": command_line(visit, asked),
        "grpcurl": grpcurl(visit, asked),
    }


def _describe_outcome(step: Step, groups: Sequence[str]) -> str:
    text = _OUTCOMES.get(step.outcome, str(step.outcome))
    if step.outcome is StepOutcome.NO_MATCH:
        listed = groups_listed_as_users(step.acl_text, groups)
        text += f": lists {', '.join(listed)} as a user; put groups after a space" if listed else ""
    return text


PAGE: Final = Page(
    "Access", PATH, (Route("GET", PATH, show), Route("GET", f"{PATH}/queues", queue_names))
)
