"""Rules for the limits of users and groups.

They are those of `checkLimitsStructure`, `checkLimits`, `checkLimitResource` and
`checkLimitMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. A limit must
not allow more than the limits of the same user or group in the queues above. A name that has no
limit above is compared with `*` there.
"""

from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import ROOT, is_group_name, is_user_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_reader import ScalarNode
from queuegate_server.formats.yunikorn.model import Limit, PartitionConfig, QueueConfig
from queuegate_server.formats.yunikorn.resources import Amounts, amounts, excess, is_zero, smaller

_IS_NAME: Final = {"user": is_user_name, "group": is_group_name}


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
    limited = False
    for queue in partition.queues:
        if queue.limits:
            limited = True
            _check_queue(queue, diagnostics)
    if limited:
        _check_inherited(partition.queues, diagnostics)


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
            limit.max_applications.value if limit.max_applications else 0,
        )
        for limit in limits
    ]


def _check_queue(queue: QueueConfig, diagnostics: Diagnostics) -> None:
    maximum: Amounts = {}
    if queue.name != ROOT and queue.resources:
        # Errors in the queue's own resources are reported elsewhere.
        maximum = amounts(queue.resources.maximum, Diagnostics(""), queue.path)
    seen: dict[str, dict[str, ScalarNode]] = {"user": {}, "group": {}}
    for limit in queue.limits:
        if not limit.users and not limit.groups:
            message = f"limit {quoted(limit.description)} applies to no user and no group"
            diagnostics.error(limit.position, message, "add users or groups", queue.path)
        for kind, names in (("user", limit.users), ("group", limit.groups)):
            for name in names or ():
                _check_name(kind, name, seen[kind], diagnostics, queue.path)
        if limit.groups and seen["group"].keys() == {WILDCARD}:
            message = 'the group "*" is limited, but no group before it'
            remedy = "name a group first, or limit the queue instead"
            diagnostics.error(seen["group"][WILDCARD], message, remedy, queue.path)
        _check_amounts(limit, queue, maximum, diagnostics)


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
) -> None:
    name = quoted(limit.description)
    resources: Amounts = {}
    if limit.max_resources:
        before = diagnostics.error_count
        resources = amounts(limit.max_resources, diagnostics, queue.path)
        if is_zero(resources) and diagnostics.error_count == before:
            message = f"limit {name} allows nothing of any resource"
            diagnostics.error(
                limit.position, message, "allow more than 0 of a resource", queue.path
            )
    elif not limit.max_applications or not limit.max_applications.value:
        message = f"limit {name} limits nothing"
        diagnostics.error(
            limit.position, message, "add maxresources or maxapplications", queue.path
        )
    too_much = excess(maximum, resources)
    if too_much:
        message = f"limit {name} allows more resources than the queue: {too_much}"
        diagnostics.error(limit.position, message, "lower maxresources", queue.path)
    if limit.max_applications and queue.max_applications:
        allowed, maximum_count = limit.max_applications, queue.max_applications.value
        if 0 < maximum_count < allowed.value:
            message = (
                f"limit {name} allows {allowed.value} applications, the queue only {maximum_count}"
            )
            diagnostics.error(allowed.position, message, "lower maxapplications", queue.path)


@dataclass(slots=True)
class _Allowed:
    """What a name may use, by the limits of all queues from here up to the root."""

    resources: Amounts
    applications: int
    """0 means unlimited."""


@dataclass(slots=True)
class _LimitScope:
    """The limits of a queue, by name, and the scope of the queues above.

    Nothing is copied from above: a queue with thousands of limited names may have thousands of
    queues below it.
    """

    above: "_LimitScope | None"
    allowed: dict[tuple[str, str], _Allowed] = field(default_factory=dict)
    """By `user` or `group`, and name."""

    def find(self, kind: str, name: str) -> _Allowed | None:
        """Return the nearest limit of a name, from here up to the root."""
        scope: _LimitScope | None = self
        while scope is not None:
            found = scope.allowed.get((kind, name))
            if found is not None:
                return found
            scope = scope.above
        return None


_NO_LIMITS: Final = _LimitScope(None)


def _check_inherited(queues: list[QueueConfig], diagnostics: Diagnostics) -> None:
    """Compare the limits of all queues, each listed after its parent, with those above."""
    scopes: dict[QueueConfig | None, _LimitScope] = {}
    for queue in queues:
        above = scopes.get(queue.parent, _NO_LIMITS)
        own = above
        if queue.limits:
            own = _LimitScope(above)
            for limit in queue.limits:
                # Errors in the amounts are reported with the limit itself.
                allowed = _Allowed(
                    amounts(limit.max_resources, Diagnostics(""), queue.path),
                    limit.max_applications.value if limit.max_applications else 0,
                )
                for kind, names in (("user", limit.users), ("group", limit.groups)):
                    for name in names or ():
                        own.allowed[kind, name.text] = _compare(
                            kind, name, allowed, above, queue=queue.path, diagnostics=diagnostics
                        )
        if queue.has_children and own is not _NO_LIMITS:
            scopes[queue] = own


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
    same = above.find(kind, name.text)
    bound = same or above.find(kind, WILDCARD)
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
