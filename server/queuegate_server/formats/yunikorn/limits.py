"""Rules for the limits of users and groups.

They are those of `checkLimitsStructure`, `checkLimits`, `checkLimitResource` and
`checkLimitMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. A limit must
not allow more than the limits of the same user or group in the queues above. A name that has no
limit above is compared with `*` there.
"""

from collections import ChainMap
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import ROOT, is_group_name, is_user_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_reader import ScalarNode
from queuegate_server.formats.yunikorn.model import Limit, PartitionConfig, QueueConfig
from queuegate_server.formats.yunikorn.resources import Amounts, amounts, excess, is_zero, smaller

_IS_NAME: Final = {"user": is_user_name, "group": is_group_name}


class _Allowed(NamedTuple):
    """What a name may use, by the limits of all queues from here up to the root."""

    resources: Amounts
    applications: int
    """0 means unlimited."""


_LimitScope = ChainMap[tuple[str, str], _Allowed]
"""By `user` or `group`, and name: the limits of a queue, then of those above.

Nothing is copied from above: a queue with thousands of limited names may have thousands of queues
below it.
"""


def check_limits(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check all limits of a partition; its own limits are those of its root."""
    if not partition.queues:
        return
    root = partition.queues[0]
    if partition.limits and not root.limits:
        root.limits = partition.limits
    elif partition.limits and _content(partition.limits) != _content(root.limits):
        position = partition.limits[0].position
        message = "the limits of the partition differ from those of its root queue"
        diagnostics.error(
            position, message, "set the limits in one of the two places only", root.path
        )
    scopes: dict[QueueConfig | None, _LimitScope] = {}
    for queue in partition.queues:
        scope = scopes.get(queue.parent)
        if queue.limits:
            scope = _check_queue(queue, scope or ChainMap(), diagnostics)
        if queue.has_children and scope:
            scopes[queue] = scope


def _content(limits: list[Limit]) -> list[object]:
    """Return the content of limits, to compare; a missing list is not an empty one."""
    return [
        (
            limit.description,
            None if limit.users is None else [user.text for user in limit.users],
            None if limit.groups is None else [group.text for group in limit.groups],
            None
            if limit.max_resources is None
            else {name: scalar.text for name, scalar in limit.max_resources.items()},
            limit.max_applications.value,
        )
        for limit in limits
    ]


def _check_queue(queue: QueueConfig, above: _LimitScope, diagnostics: Diagnostics) -> _LimitScope:
    """Check the limits of a queue; return them in front of those above."""
    maximum: Amounts = {}
    if queue.name.text != ROOT and queue.resources:
        # Errors in the queue's own resources are reported elsewhere.
        maximum = amounts(queue.resources.maximum, Diagnostics(""), queue.path)
    scope = above.new_child()
    seen: dict[str, dict[str, ScalarNode]] = {"user": {}, "group": {}}
    for limit in queue.limits:
        if not limit.users and not limit.groups:
            message = f"limit {quoted(limit.description)} applies to no user and no group"
            diagnostics.error(limit.position, message, "add users or groups", queue.path)
        names = [
            *(("user", name) for name in limit.users or ()),
            *(("group", name) for name in limit.groups or ()),
        ]
        for kind, name in names:
            _check_name(kind, name, seen[kind], diagnostics, queue.path)
        if limit.groups and seen["group"].keys() == {WILDCARD}:
            message = 'the group "*" is limited, but no group before it'
            remedy = "name a group first, or limit the queue instead"
            diagnostics.error(seen["group"][WILDCARD], message, remedy, queue.path)
        allowed = _Allowed(
            _check_amounts(limit, queue, maximum, diagnostics), limit.max_applications.value
        )
        for kind, name in names:
            scope[kind, name.text] = _compare(
                kind, name, allowed, above, queue=queue.path, diagnostics=diagnostics
            )
    return scope


def _check_name(
    kind: str, name: ScalarNode, seen: dict[str, ScalarNode], diagnostics: Diagnostics, queue: str
) -> None:
    text = name.text
    if text != WILDCARD and not _IS_NAME[kind](text):
        message = f"{quoted(text)} is not a {kind} name"
        diagnostics.error(name, message, 'correct it, or write "*" for everybody', queue)
        return
    first = seen.setdefault(text, name)
    if first is not name:
        message = f"{kind} {quoted(text)} is limited twice, first on line {first.line}"
        diagnostics.error(name, message, "keep one of the two", queue)
    elif WILDCARD in seen and text != WILDCARD:
        message = f'{kind} {quoted(text)} is limited after the {kind} "*"'
        diagnostics.error(name, message, f'put the limit of the {kind} "*" last', queue)


def _check_amounts(
    limit: Limit, queue: QueueConfig, maximum: Amounts, diagnostics: Diagnostics
) -> Amounts:
    """Check what a limit allows; return its valid amounts of resources."""
    name = quoted(limit.description)
    applications, position = limit.max_applications
    errors_before = diagnostics.error_count
    resources = amounts(limit.max_resources, diagnostics, queue.path)
    if limit.max_resources:
        if is_zero(resources) and diagnostics.error_count == errors_before:
            message = f"limit {name} allows nothing of any resource"
            remedy = "allow more than 0 of a resource"
            diagnostics.error(limit.position, message, remedy, queue.path)
    elif not applications:
        message = f"limit {name} limits nothing"
        remedy = "add maxresources or maxapplications"
        diagnostics.error(limit.position, message, remedy, queue.path)
    too_much = excess(maximum, resources)
    if too_much:
        message = f"limit {name} allows more resources than the queue: {too_much}"
        diagnostics.error(limit.position, message, "lower maxresources", queue.path)
    if 0 < queue.max_applications.value < applications:
        allowed = queue.max_applications.value
        message = f"limit {name} allows {applications} applications, the queue only {allowed}"
        diagnostics.error(position, message, "lower maxapplications", queue.path)
    return resources


def _compare(
    kind: str,
    name: ScalarNode,
    allowed: _Allowed,
    above: _LimitScope,
    *,
    queue: str,
    diagnostics: Diagnostics,
) -> _Allowed:
    """Report what exceeds the limits above; return the limit for the queues below."""
    same = above.get((kind, name.text))
    bound = same or above.get((kind, WILDCARD))
    if bound is None:
        return allowed
    who = f"{kind} {quoted(name.text)}"
    whose = "" if same else f'the {kind} "*" '
    too_much = excess(bound.resources, allowed.resources)
    if too_much:
        message = f"{who} may use more resources than {whose}in a queue above: {too_much}"
        diagnostics.error(name, message, "lower maxresources here or raise it there", queue)
    if bound.applications and not 0 < allowed.applications <= bound.applications:
        message = (
            f"{who} may run {allowed.applications or 'any number of'} applications, "
            f"but {whose}only {bound.applications} in a queue above"
        )
        remedy = f"set maxapplications from 1 to {bound.applications}"
        diagnostics.error(name, message, remedy, queue)
    if not same:
        return allowed
    return _Allowed(
        smaller(allowed.resources, bound.resources), min(allowed.applications, bound.applications)
    )
