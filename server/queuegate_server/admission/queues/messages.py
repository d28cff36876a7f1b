"""Messages shown to users whose objects name queues. Pure.

They never contain group names, because the requester must not learn who else is in the groups.
"""

import shlex
from typing import Final

from queuegate.policy.decision import Access, Decision, Reason
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.admission.queues.checks import UNQUEUED
from queuegate_server.admission.queues.missing_grant import MissingGrant
from queuegate_server.admission.queues.model import NO_QUEUES, Obstacle, RequiredCheck, Usable
from queuegate_server.admission.queues.names import PLACES
from queuegate_server.admission.server.webhook_limits import MAX_WARNING

MAX_USABLE: Final = 5
"""The maximum number of usable queues in a message."""
_SCHEDULERS: Final = {
    "yunikorn": "YuniKorn",
    "kueue": "Kueue",
    "volcano": "Volcano",
    "kai": "KAI",
    "koordinator": "Koordinator",
}
_VERBS: Final = {Access.SUBMIT: "submit to", Access.ADMIN: "administer"}
_REASONS: Final = {
    Reason.NO_MATCH: "no ACL on {queue} or above lists {user} or any of {user}'s groups",
    Reason.UNKNOWN_USER: "access depends on groups, and the directory does not know {user}",
    Reason.RECOVERY_QUEUE: "nobody may submit to the recovery queue",
    Reason.UNKNOWN_QUEUE: "the queue does not exist",
}
_MAX_REPEATED: Final = 40
"""The maximum length of a user name or path that a message repeats. A warning has little room."""


def action(access: Access, path: str) -> str:
    """Return what a user may or may not do, such as `submit to root.dev`."""
    return f"{_VERBS[access]} {path}"


def reason_text(decision: Decision, user: str, path: str) -> str:
    """Return why a user is denied access to a queue."""
    return _REASONS.get(decision.reason, str(decision.reason)).format(
        user=user if len(user) <= _MAX_REPEATED else "the user",
        queue=path if len(path) <= _MAX_REPEATED else "the queue",
    )


def denial(
    user: str,
    check: RequiredCheck,
    decision: Decision,
    partition: str = DEFAULT_PARTITION,
    *,
    more: int = 0,
    usable: Usable = NO_QUEUES,
    grant: MissingGrant | None = None,
) -> str:
    """Return why an object is refused.

    Args:
        user: The requester.
        check: The first check that failed.
        decision: Its decision.
        partition: The partition of the policy.
        more: The number of further checks that failed.
        usable: Queues that the requester may use in that place, possibly more than MAX_USABLE.
        grant: Under Kubernetes RBAC, what the requester lacks.
    """
    parts = [_reason_sentence(user, check, decision, grant), *_remedy(check)]
    if more:
        parts.append(f"{more} more {'queue is' if more == 1 else 'queues are'} denied")
    if usable.names:
        listed = ", ".join(usable.names[:MAX_USABLE])
        rest = len(usable.names) - MAX_USABLE
        at_least = "" if usable.is_complete else "at least "
        more_queues = f" ({at_least}{rest} more)" if rest > 0 else ""
        use = "use" if grant or check.access is Access.SUBMIT else "administer"
        parts.append(f"Queues you may {use}: {listed}{more_queues}")
    message = ". ".join([*parts, *_hint(user, check, partition, grant)])
    return f"{message}\nThis would grant it:\n{grant.manifests()}" if grant else message


def denial_warning(
    user: str,
    check: RequiredCheck,
    decision: Decision,
    partition: str = DEFAULT_PARTITION,
    grant: MissingGrant | None = None,
) -> str:
    """Return why an object would be refused, with as many hints as a warning has room for.

    The arguments are those of `denial`.
    """
    warning = _reason_sentence(user, check, decision, grant)
    for hint in (*_remedy(check), *_hint(user, check, partition, grant)):
        longer = f"{warning}. {hint}"
        if len(longer) <= MAX_WARNING:
            warning = longer
    return warning


def _reason_sentence(
    user: str, check: RequiredCheck, decision: Decision, grant: MissingGrant | None
) -> str:
    place = (
        "the queue of objects that name none"
        if check.scheduler == UNQUEUED
        else f"set in {check.where}{_reader(check)}"
    )
    if grant is not None:
        name = user if len(user) <= _MAX_REPEATED else "the user"
        why = f"no binding grants it to {name} or {name}'s groups"
        return f"{user} may not {grant} ({place}): {why}"
    refused = action(check.access, check.path)
    return f"{user} may not {refused} ({place}): {reason_text(decision, user, check.path)}"


def _reader(check: RequiredCheck) -> str:
    """Name the scheduler that reads the queue in a place, if other schedulers read different queues
    there.
    """
    if not check.is_one_of_several:
        return ""
    if check.scheduler.startswith(PLACES):
        return f" for admission.queues.schedulers.{check.scheduler}"
    return f" for {_SCHEDULERS.get(check.scheduler, check.scheduler)}"


def _remedy(check: RequiredCheck) -> list[str]:
    """Return how to limit the check to one scheduler, if the object can name its scheduler."""
    if not (check.is_one_of_several and check.scheduler_field):
        return []
    return [f"If another scheduler runs the pods, set {check.scheduler_field}"]


def _hint(user: str, check: RequiredCheck, partition: str, grant: MissingGrant | None) -> list[str]:
    """Return the command that explains a decision, for a POSIX shell, if there is one."""
    name = user if grant is None else grant.name_in_questions
    if name is None:
        return []
    words = ["queuegate", "explain"]
    if partition != DEFAULT_PARTITION:
        words += ["--partition", partition]
    if grant is None and check.access is not Access.SUBMIT:
        words += ["--access", str(check.access)]
    if name.startswith("-"):
        words.append("--")
    return [f"To see why: {shlex.join([*words, name, check.path])}"]


def refusal(obstacle: Obstacle) -> str:
    """Return why an object with an obstacle is refused, or would be refused in `deny` mode."""
    if obstacle.scheduler in ("", UNQUEUED):
        return obstacle.message
    return f"{obstacle.where}: {obstacle.message}"
