"""Render decisions, explanations, lists of queues and groups as text for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from queuegate._applications import (
    ApplicationCheck,
    ApplicationExplanation,
    ApplicationList,
    SparkApplication,
)
from queuegate._results import Resolution, ResolveOutcome
from queuegate._types import Check, Decision, ExplainedGroups, Explanation, GroupsOrigin, Step
from queuegate._users import AccessGrant, UsableQueue
from queuegate.cli.suggestions import MissingQueue, missing_queue_line, shown_queue
from queuegate.cli.terminal import Colors, escape, join_names, unlistable
from queuegate.policy.applications import Action
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import StepOutcome, groups_listed_as_users
from queuegate.policy.reach import SubjectKind

VERBS = {Access.SUBMIT: "submit to", Access.ADMIN: "administer"}
ORIGINS = {
    GroupsOrigin.NOT_NEEDED: "not needed for this decision",
    GroupsOrigin.REQUEST: "from the request",
    GroupsOrigin.RESOLVER: "just resolved",
    GroupsOrigin.CACHE: "cached",
    GroupsOrigin.STALE_CACHE: "cached and expired; the resolver is unavailable",
    GroupsOrigin.UNSPECIFIED: "unknown origin (this client is too old for the server)",
}
UNRESOLVED = {
    ResolveOutcome.NOT_FOUND: "no such user",
    ResolveOutcome.UNAVAILABLE: "could not be resolved",
    ResolveOutcome.UNSPECIFIED: "unknown outcome (this client is too old for the server)",
}
_REASONS = {
    Reason.WILDCARD: "an ACL of {queue} allows everyone",
    Reason.USER: "an ACL of {queue} lists the user {subject}",
    Reason.GROUP: "an ACL of {queue} lists the group {subject}",
    Reason.NO_MATCH: (
        "no ACL from the queue up to the root lists the user or any of the user's groups"
    ),
    Reason.UNKNOWN_USER: "the resolver of partition {partition} does not know the user",
    Reason.RECOVERY_QUEUE: "access to the recovery queue is never granted",
    Reason.ACLS_DISABLED: "yarn.acl.enable is not true{site}: YARN enforces no ACLs",
    Reason.CLUSTER_ADMIN: "the user administers the cluster",
    Reason.OWNER: "the user owns the application",
    Reason.UNKNOWN_QUEUE: "the target queue does not exist",
    Reason.UNSPECIFIED: "unknown reason (this client is too old for the server)",
}
_OF_APPLICATIONS = {
    Reason.WILDCARD: "an ACL of the application allows everyone",
    Reason.USER: "an ACL of the application lists the user {subject}",
    Reason.GROUP: "an ACL of the application lists the group {subject}",
    Reason.NO_MATCH: "no ACL for this action lists the user or any of the user's groups",
}
_DOING = {Action.VIEW_LOGS: "view the logs of", Action.ADMIN: "act for users of"}
_LISTED = {
    StepOutcome.USER: "the user ",
    StepOutcome.GROUP: "the group ",
    StepOutcome.CLUSTER_ADMIN: "",
}
_WITH_GROUPS = frozenset(ApplicationList) - {ApplicationList.OWNER}
"""The application lists whose group names follow a space."""
_NO_HINTS = MissingQueue()
_MAX_NAMED: Final = 5
"""The maximum number of entries shown for an ACL built from role bindings."""
_UNKNOWN_OUTCOME: Final = "unknown outcome (this client is too old for the server)"


def decision_text(
    asked: Check,
    answer: Decision,
    colors: Colors,
    missing: MissingQueue = _NO_HINTS,
    site: str = "",
) -> str:
    """Return a decision as a line, with a second line if the queue does not exist or is ambiguous.

    `missing` contains hints for the second line, and `site` is the yarn-site.xml file's path, if
    known.
    """
    word = colors.good("allowed") if answer.allowed else colors.bad("denied")
    can = "may" if answer.allowed else "may not"
    text = (
        f"{word}: {escape(asked.user)} {can} {VERBS[Access(asked.access)]}"
        f" {shown_queue(asked.queue)}: {reason_words(asked.partition, answer, site)}"
    )
    if answer.reason is Reason.UNKNOWN_USER:
        text += _domain_hint(asked.user)
    if answer.evaluated_queue:
        line = missing_queue_line(asked.queue, answer.evaluated_queue, missing, asked.user)
        text += f"\n{line}"
    elif missing.ambiguity:
        text += f"\n{escape(missing.ambiguity)}"
    return text


def _domain_hint(user: str) -> str:
    """Return a hint if the user name contains a domain, as in `sue@EXAMPLE`; otherwise ""."""
    name = user.rpartition("\\")[2].partition("@")[0].partition("/")[0]
    if name in {"", user}:
        return ""
    return f"; the name has a domain part, which directories usually omit: try {escape(name)}"


def reason_words(partition: str, answer: Decision, site: str = "") -> str:
    """Return the reason for a decision, in words."""
    return _REASONS[answer.reason].format(
        queue=escape(answer.matched_queue),
        subject=escape(answer.matched_subject),
        partition=escape(partition or "default"),
        site=f" in {escape(site)}" if site else "",
    )


def explanation_lines(
    asked: Check,
    answer: Explanation,
    colors: Colors,
    missing: MissingQueue = _NO_HINTS,
    site: str = "",
) -> Iterator[str]:
    """Yield the lines returned by `decision_text`, then a tree of the evaluated ACLs, then the
    groups.
    """
    yield decision_text(asked, answer.decision, colors, missing, site)
    if answer.will_be_created:
        queue = escape(answer.evaluated_queue)
        yield f"{queue} does not exist yet: YARN will create it, with ACLs from templates"
    if answer.is_parent and answer.decision.allowed and asked.access == Access.SUBMIT:
        queue = escape(asked.queue)
        yield f"{queue} is a parent queue: the scheduler accepts applications only in leaf queues"
    yield ""
    for queue, steps in groupby(answer.steps, key=lambda step: step.queue):
        yield escape(queue) or "the cluster"
        is_new = answer.will_be_created and queue == answer.evaluated_queue
        groups = answer.groups.groups
        yield from _branches([_step(step, groups, colors, is_new=is_new) for step in steps])
    yield f"groups: {_groups(answer.groups)}"
    yield colors.faint(
        f"policy revision {answer.decision.policy_revision},"
        f" partition {escape(asked.partition or 'default')}"
    )


def application_decision_text(asked: ApplicationCheck, answer: Decision, colors: Colors) -> str:
    """Return a line with an application access decision and its reason."""
    word = colors.good("allowed") if answer.allowed else colors.bad("denied")
    can = "may" if answer.allowed else "may not"
    is_spark = isinstance(asked.application, SparkApplication)
    if is_spark and answer.reason is Reason.ACLS_DISABLED:
        why = "spark.acls.enable is not true: Spark enforces no ACLs"
    elif answer.matched_queue or answer.reason not in _OF_APPLICATIONS:
        why = reason_words(asked.partition, answer)
    else:
        why = _OF_APPLICATIONS[answer.reason].format(subject=escape(answer.matched_subject))
    if answer.reason is Reason.UNKNOWN_USER:
        why += _domain_hint(asked.user)
    doing = _DOING.get(Action(asked.action), str(asked.action))
    return f"{word}: {escape(asked.user)} {can} {doing} the application: {why}"


def application_explanation_lines(
    asked: ApplicationCheck, answer: ApplicationExplanation, colors: Colors, missing: str = ""
) -> Iterator[str]:
    """Yield the lines of an application access decision, then the evaluated lists.

    `missing` is a line to include if the application's queue does not exist.
    """
    yield application_decision_text(asked, answer.decision, colors)
    if missing:
        yield missing
    yield ""
    is_spark = isinstance(asked.application, SparkApplication)
    groups = () if is_spark else answer.groups.groups
    for step in answer.steps:
        outcome = colors.good("grants") if step.granted else "no match"
        where = f" of {escape(step.queue)}" if step.queue else ""
        name = step.list.replace("_", " ")
        has_groups = step.list in _WITH_GROUPS and not step.granted
        hint = _misplaced(step.acl_text, groups, colors) if has_groups else ""
        yield f"{name}{where} '{escape(step.acl_text)}': {outcome}{hint}"
    yield f"groups: {_groups(answer.groups)}"


def _branches(lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:-1]:
        yield f"├─ {line}"
    yield f"└─ {lines[-1]}"


def _step(step: Step, groups: Sequence[str], colors: Colors, *, is_new: bool) -> str:
    subject = escape(step.matched_subject)
    acl = f"{step.acl or 'unknown'} ACL '{escape(step.acl_text)}'"
    if step.entries:
        return _step_of_bindings(step, colors)
    match step.outcome:
        case StepOutcome.ACLS_DISABLED:
            text = colors.good("ACLs are not enforced (yarn.acl.enable)")
        case StepOutcome.WILDCARD:
            text = f"{acl}: {colors.good('allows everyone')}"
        case outcome if outcome in _LISTED:
            text = f"{acl}: {colors.good(f'lists {_LISTED[outcome]}{subject}')}"
        case StepOutcome.NO_MATCH:
            text = f"{acl}: no match"
            text += _misplaced(step.acl_text, groups, colors)
        case StepOutcome.EMPTY:
            text = f"{acl}: grants nothing"
        case StepOutcome.RECOVERY_QUEUE:
            text = colors.bad("access to the recovery queue is never granted")
        case _:
            text = f"{acl}: {_UNKNOWN_OUTCOME}"
    if step.template_property or (is_new and step.acl):
        source = escape(step.template_property) or "no template sets it"
        text += colors.faint(f" ({source})")
    if step.dropped_names:
        dropped = ", ".join(escape(name) for name in step.dropped_names)
        text += colors.doubtful(f" (never match: {dropped})")
    return text


def _step_of_bindings(step: Step, colors: Colors) -> str:
    """Return the text for an ACL built from Kubernetes role bindings."""
    first = step.entries[0]
    if step.outcome in _LISTED:
        listed = f"lists {_LISTED[step.outcome]}{escape(first.name)}"
        return f"{escape('; '.join(first.origins))}: {colors.good(listed)}"
    names = [f"{each.kind or 'unknown'} {escape(each.name)}" for each in step.entries[:_MAX_NAMED]]
    more = len(step.entries) - len(names) + step.further_entries
    names += [f"{more} more"] if more else []
    end = "no match" if step.outcome is StepOutcome.NO_MATCH else _UNKNOWN_OUTCOME
    return f"bindings of {', '.join(names)}: {end}"


def _misplaced(acl: str, groups: Sequence[str], colors: Colors) -> str:
    """Return a hint if an ACL lists some of these groups as users; otherwise ""."""
    names = ", ".join(map(escape, groups_listed_as_users(acl, groups)))
    return colors.doubtful(f" (lists {names} as a user: put groups after a space)") if names else ""


def _groups(groups: ExplainedGroups) -> str:
    names = join_names(groups.groups)
    notes = [ORIGINS[groups.origin]]
    if groups.resolver and groups.origin not in {GroupsOrigin.NOT_NEEDED, GroupsOrigin.REQUEST}:
        notes.append(f"resolver {escape(groups.resolver)}")
    if groups.detail:
        notes.append(escape(groups.detail))
    if groups.origin is GroupsOrigin.NOT_NEEDED:
        return "; ".join(notes)
    return f"{names or 'none'} ({'; '.join(notes)})"


def usable_queue_lines(queues: Sequence[UsableQueue]) -> Iterator[str]:
    """Yield a line for each queue, with the entry that grants access."""
    width = max((len(escape(each.queue)) for each in queues), default=0)
    for each in queues:
        yield f"{escape(each.queue):{width}}  {grant_words(each.via)}"


def grant_words(grant: AccessGrant) -> str:
    """Return a description of the ACL entry that grants access."""
    if grant.kind is SubjectKind.EVERYONE:
        if grant.acl is None:
            return _REASONS[Reason.ACLS_DISABLED].format(site="")
        return f"everyone in {place_of(grant)}"
    name = escape(grant.name)
    match grant.kind:
        case SubjectKind.USER:
            text = "the user"
        case SubjectKind.GROUP:
            text = f"group {name}"
        case SubjectKind.PROXY:
            text = f"service {name}, which acts for the user,"
        case None:  # a kind that only newer servers know
            text = f"unknown {name}"
    if grant.nested:
        text += f", through {', '.join(map(escape, grant.nested))},"
    text = f"{text} {'in' if grant.queue else 'among'} {place_of(grant)}"
    return f"{text} ({escape('; '.join(grant.origins))})" if grant.origins else text


def place_of(grant: AccessGrant) -> str:
    """Return the name of the ACL that contains an entry."""
    if not grant.queue:
        return "the administrators of the cluster"
    return f"the {grant.acl or 'unknown'} ACL of {escape(grant.queue)}"


def grant_row(grant: AccessGrant) -> tuple[str, str, str]:
    """Return an entry's table cells: subject, ACL and queue."""
    via = " > ".join((f"{grant.kind or 'unknown'} {grant.name}", *grant.nested))
    return via, str(grant.acl or ""), grant.queue


def resolution_lines(answer: Resolution, colors: Colors) -> Iterator[str]:
    """Yield lines that show a user's groups, or why the groups are unknown."""
    user = escape(answer.user)
    by = f"resolver {escape(answer.resolver)}"
    detail = f": {escape(answer.detail)}" if answer.detail else ""
    if answer.outcome is not ResolveOutcome.RESOLVED:
        is_unknown = answer.outcome is ResolveOutcome.NOT_FOUND
        hint = _domain_hint(answer.user) if is_unknown else ""
        yield f"{user}: {UNRESOLVED[answer.outcome]} ({by}){detail}{hint}"
        return
    yield f"{user}: {join_names(answer.groups) or 'no groups'}"
    notes = [by, "cached" if answer.cached else "just resolved"]
    if answer.stale:
        notes.append(colors.doubtful("expired, but the resolver is unavailable"))
    if answer.resolved_at:
        notes.append(f"resolved {moment(answer.resolved_at)}")
    if answer.expires_at:
        notes.append(f"expires {moment(answer.expires_at)}")
    yield f"  {', '.join(notes)}{detail}"
    if note := unlistable(answer.groups):
        yield f"  note: {note}"


def moment(when: datetime) -> str:
    """Format a time in UTC, to the second."""
    return when.strftime("%Y-%m-%d %H:%M:%SZ")
