"""Validates quotas: queue resources, and user and group limits.

Amounts are parsed and compared as in YuniKorn's `pkg/common/resources/quantity.go` and
`resources.go`; an unset amount is unlimited. The rules follow `checkQueueResource`,
`checkLimitsStructure`, `checkLimits`, `checkLimitResource` and `checkLimitMaxApplications` in its
`configvalidator.go`. A child template's resources are checked only at parent queues and in a
template that is not empty, because YuniKorn ignores them elsewhere.
"""

import re
from collections import ChainMap
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate.policy.acl import WHITE_SPACE, WILDCARD
from queuegate.policy.names import ROOT
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yunikorn.model import (
    IS_NAME,
    Limit,
    PartitionConfig,
    Quantities,
    QueueConfig,
)

Amounts = dict[str, int]
"""Amounts by resource name, in bytes, thousandths of a core, or plain numbers."""

_CORES: Final = "vcore"
_QUANTITY: Final = re.compile(r"0*([0-9]{1,19})[\t\n\f\r ]*([A-Za-z]*)")
_MAX_AMOUNT: Final = 2**63 - 1
_SCALES: Final = {
    **{unit: 1000**power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", start=1)},
}
_MILLI: Final = "m"


def amount(resource: str, text: str) -> int | None:
    """Parse an amount of the given resource; None if it is invalid."""
    match = _QUANTITY.fullmatch(text.strip(WHITE_SPACE))
    if match is None:
        return None
    number, suffix = int(match[1]), match[2]
    if resource == _CORES:
        scale = 1 if suffix == _MILLI else 1000 * _SCALES.get(suffix, 0)
    else:
        scale = _SCALES.get(suffix, 0)
    value = number * scale
    return value if scale and number <= _MAX_AMOUNT and value <= _MAX_AMOUNT else None


def amounts(quantities: Quantities | None, diagnostics: Diagnostics, queue: str) -> Amounts:
    """Parse amounts, and report invalid amounts."""
    valid = {}
    for resource, scalar in (quantities or {}).items():
        value = amount(resource, scalar.text)
        if value is None:
            message = f"{quoted(scalar.text)} is not an amount of {quoted(resource)}"
            remedy = "write a whole number, optionally with k M G T P E Ki Mi Gi Ti Pi or Ei"
            if resource == _CORES:
                remedy = f"{remedy}, or m for thousandths"
            diagnostics.error(scalar, message, remedy, queue)
        else:
            valid[resource] = value
    return valid


def excess(limit: Amounts, wanted: Amounts) -> str:
    """Describe the amounts in `wanted` that exceed `limit`; return an empty string if none does."""
    return ", ".join(
        f"{resource} {value}{unit} > {limit[resource]}{unit}"
        for resource, value in wanted.items()
        for unit in (_MILLI if resource == _CORES else "",)
        if resource in limit and value > limit[resource]
    )


def smaller(one: Amounts, other: Amounts) -> Amounts:
    """Return the smaller amount of each resource. Keep an amount given in only one argument."""
    if not one or not other:
        return one or other
    return one | {name: min(value, one.get(name, value)) for name, value in other.items()}


def check_resources(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the resources of all queues in the partition."""
    guaranteed: dict[QueueConfig, Amounts] = {}
    maximum: dict[QueueConfig | None, Amounts] = {}
    for queue in partition.queues:
        path = queue.path
        template = queue.template
        is_parent = queue.is_parent or queue.has_children
        if is_parent and template and template.is_used and template.resources:
            amounts(template.resources.guaranteed, diagnostics, path)
            amounts(template.resources.maximum, diagnostics, path)
        above = maximum.get(queue.parent, {})
        own: Amounts = {}
        if queue.resources:
            position = queue.resources.position
            own = amounts(queue.resources.maximum, diagnostics, path)
            guaranteed[queue] = amounts(queue.resources.guaranteed, diagnostics, path)
            if too_much := excess(own, guaranteed[queue]):
                message = f"queue {quoted(path)} is guaranteed more than its max: {too_much}"
                diagnostics.error(position, message, "lower guaranteed or raise max", path)
            if too_much := excess(above, own):
                message = f"queue {quoted(path)} has a higher max than a queue above it: {too_much}"
                diagnostics.error(position, message, "lower it here or raise it there", path)
        if own or above:
            maximum[queue] = smaller(own, above)
    if guaranteed:
        _check_sums(partition.queues, guaranteed, maximum, diagnostics)


def _check_sums(
    queues: list[QueueConfig],
    guaranteed: dict[QueueConfig, Amounts],
    maximum: dict[QueueConfig | None, Amounts],
    diagnostics: Diagnostics,
) -> None:
    """Check that no queue's children are guaranteed more than the queue's own resources."""
    sums: dict[QueueConfig, Amounts] = {}
    for queue in reversed(queues):
        total = sums.pop(queue, {})
        own = guaranteed.get(queue, {})
        for name, limit in (("guaranteed", own), ("max", maximum.get(queue, {}))):
            if too_much := excess(limit, total):
                position = queue.resources.position if queue.resources else queue.position
                message = f"the children of queue {quoted(queue.path)} are guaranteed more"
                message += f" than its {name}: {too_much}"
                remedy = f"lower the guaranteed of the children or raise {name}"
                diagnostics.error(position, message, remedy, queue.path)
        promised = own if any(own.values()) else total
        if promised and queue.parent:
            above = sums.setdefault(queue.parent, {})
            for resource, value in promised.items():
                above[resource] = above.get(resource, 0) + value


class _Allowance(NamedTuple):
    """The usage that the limits of a queue and its ancestors allow a user or group."""

    resources: Amounts
    applications: int
    """0 means unlimited."""


_LimitScope = ChainMap[tuple[str, str], _Allowance]
"""Limits by kind (`user` or `group`) and name: first the queue's, then its ancestors'.

Ancestors' limits are not copied, because a queue with thousands of limits may have thousands of
queues below it."""


def check_limits(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check all limits in the partition. The partition's own limits apply to its root.

    A limit must not exceed the limits for the same user or group in the queues above. If there are
    no such limits, it must not exceed the limits for `*`.
    """
    if not partition.queues:
        return
    root = partition.queues[0]
    if partition.limits and not root.limits:
        root.limits = partition.limits
    elif partition.limits and _content(partition.limits) != _content(root.limits):
        position = partition.limits[0].position
        message = "the limits of the partition differ from those of its root queue"
        remedy = "set the limits in only one of the two places"
        diagnostics.error(position, message, remedy, root.path)
    scopes: dict[QueueConfig | None, _LimitScope] = {}
    for queue in partition.queues:
        scope = scopes.get(queue.parent)
        if queue.limits:
            scope = _QueueLimits(queue, scope or ChainMap(), diagnostics).check()
        if queue.has_children and scope:
            scopes[queue] = scope


def _content(limits: list[Limit]) -> list[object]:
    """Return the limits as comparable values. A missing list differs from an empty list."""
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


@dataclass(frozen=True, slots=True)
class _QueueLimits:
    """Checks a queue's limits, and compares them with its ancestors' limits."""

    queue: QueueConfig
    above: _LimitScope
    diagnostics: Diagnostics

    def check(self) -> _LimitScope:
        """Check the limits, and return the scope for the queues below."""
        queue, maximum = self.queue, Amounts()
        if queue.name.text != ROOT and queue.resources:
            # Discard errors here, because `check_resources` reports them.
            maximum = amounts(queue.resources.maximum, Diagnostics(""), queue.path)
        scope = self.above.new_child()
        limited: dict[str, dict[str, ScalarNode]] = {"user": {}, "group": {}}
        for limit in queue.limits:
            if not limit.users and not limit.groups:
                message = f"limit {quoted(limit.description)} applies to no user or group"
                self._error(limit.position, message, "add users or groups")
            names = [("user", name) for name in limit.users or ()]
            names += [("group", name) for name in limit.groups or ()]
            for kind, name in names:
                self._check_name(kind, name, limited[kind])
            if limit.groups and limited["group"].keys() == {WILDCARD}:
                message = 'the group "*" is limited, but no group before it is'
                remedy = "name a group first, or limit the queue instead"
                self._error(limited["group"][WILDCARD], message, remedy)
            resources = self._check_amounts(limit, maximum)
            allowed = _Allowance(resources, limit.max_applications.value)
            for kind, name in names:
                scope[kind, name.text] = self._compare(kind, name, allowed)
        return scope

    def _error(self, position: Positioned | None, message: str, remedy: str) -> None:
        self.diagnostics.error(position, message, remedy, self.queue.path)

    def _check_name(self, kind: str, name: ScalarNode, limited: dict[str, ScalarNode]) -> None:
        text = name.text
        if text != WILDCARD and not IS_NAME[kind](text):
            message = f"{quoted(text)} is not a {kind} name"
            self._error(name, message, 'correct it, or write "*" for everyone')
            return
        first = limited.setdefault(text, name)
        if first is not name:
            message = f"{kind} {quoted(text)} is limited twice, first on line {first.line}"
            self._error(name, message, "keep one of the two")
        elif WILDCARD in limited and text != WILDCARD:
            message = f'{kind} {quoted(text)} is limited after the {kind} "*"'
            self._error(name, message, f'put the limit of the {kind} "*" last')

    def _check_amounts(self, limit: Limit, maximum: Amounts) -> Amounts:
        """Check a limit's amounts, and return its valid resource amounts."""
        name = quoted(limit.description)
        applications, position = limit.max_applications
        errors_before = self.diagnostics.error_count
        resources = amounts(limit.max_resources, self.diagnostics, self.queue.path)
        if limit.max_resources:
            if not any(resources.values()) and self.diagnostics.error_count == errors_before:
                message = f"limit {name} allows no resources at all"
                self._error(limit.position, message, "allow more than 0 of a resource")
        elif not applications:
            remedy = "add maxresources or maxapplications"
            self._error(limit.position, f"limit {name} limits nothing", remedy)
        if too_much := excess(maximum, resources):
            message = f"limit {name} allows more resources than the queue: {too_much}"
            self._error(limit.position, message, "lower maxresources")
        if 0 < (allowed := self.queue.max_applications.value) < applications:
            message = (
                f"limit {name} allows {applications} applications, but its queue only {allowed}"
            )
            self._error(position, message, "lower maxapplications")
        return resources

    def _compare(self, kind: str, name: ScalarNode, allowed: _Allowance) -> _Allowance:
        """Report amounts that exceed the ancestors' limits, and return the combined limit."""
        same = self.above.get((kind, name.text))
        bound = same or self.above.get((kind, WILDCARD))
        if bound is None:
            return allowed
        who = f"{kind} {quoted(name.text)}"
        whose = "" if same else f'the {kind} "*" '
        if too_much := excess(bound.resources, allowed.resources):
            message = f"{who} may use more resources than {whose}in a queue above: {too_much}"
            self._error(name, message, "lower maxresources here or raise it there")
        if bound.applications and not 0 < allowed.applications <= bound.applications:
            message = f"{who} may run {allowed.applications or 'any number of'} applications,"
            message += f" but {whose}only {bound.applications} in a queue above"
            self._error(name, message, f"set maxapplications from 1 to {bound.applications}")
        if not same:
            return allowed
        return allowed._replace(resources=smaller(allowed.resources, bound.resources))
