"""Checks the queues' limits for users and groups.

The rules follow `checkLimitsStructure`, `checkLimits`, `checkLimitResource` and
`checkLimitMaxApplications` in YuniKorn's `configvalidator.go`.
"""

from collections import ChainMap
from dataclasses import dataclass
from typing import Any, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import ROOT
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yunikorn.amounts import Amounts, excess, parse_amounts, smaller
from queuegate_server.formats.yunikorn.model import IS_NAME, Limit, PartitionConfig, QueueConfig


class _Allowance(NamedTuple):
    """The usage that the limits of a queue and its ancestors allow a user or group."""

    resources: Amounts
    applications: int
    """0 means unlimited."""


_LimitScope = ChainMap[tuple[str, str], _Allowance]
"""Limits by kind (`user` or `group`) and name: first the queue's, then its ancestors'.

Ancestors' limits are not copied, because a queue with thousands of limits may have thousands of
queues below it."""


def apply_limits_to_root(partition: PartitionConfig) -> None:
    """Make the partition's own limits those of its root, unless the root has limits."""
    if partition.queues and not partition.queues[0].limits:
        partition.queues[0].limits = partition.limits


def check_limits(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check all limits in the partition, after `apply_limits_to_root`.

    A limit must not exceed the limits for the same user or group in the queues above. If there are
    no such limits, it must not exceed the limits for `*`.
    """
    if not partition.queues:
        return
    root = partition.queues[0]
    if partition.limits and _content(partition.limits) != _content(root.limits):
        position = partition.limits[0].position
        diagnostics.add(position, finding("limits-of-partition-and-root"), root.path)
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
            maximum = parse_amounts(queue.resources.maximum, Diagnostics(""), queue.path)
        scope = self.above.new_child()
        limited: dict[str, dict[str, ScalarNode]] = {"user": {}, "group": {}}
        for limit in queue.limits:
            if not limit.users and not limit.groups:
                self._add(limit.position, "limit-for-nobody", name=quoted(limit.description))
            names = [("user", name) for name in limit.users or ()]
            names += [("group", name) for name in limit.groups or ()]
            for kind, name in names:
                self._check_name(kind, name, limited[kind])
            if limit.groups and limited["group"].keys() == {WILDCARD}:
                self._add(limited["group"][WILDCARD], "only-other-groups-limited")
            resources = self._check_amounts(limit, maximum)
            allowed = _Allowance(resources, limit.max_applications.value)
            for kind, name in names:
                scope[kind, name.text] = self._compare(kind, name, allowed)
        return scope

    def _add(self, position: Positioned | None, identifier: str, **fields: Any) -> None:
        self.diagnostics.add(position, finding(identifier, **fields), self.queue.path)

    def _check_name(self, kind: str, name: ScalarNode, limited: dict[str, ScalarNode]) -> None:
        text = name.text
        if text != WILDCARD and not IS_NAME[kind](text):
            self._add(name, "invalid-name-in-limit", name=quoted(text), kind=kind)
            return
        first = limited.setdefault(text, name)
        if first is not name:
            self._add(name, "limited-twice", kind=kind, name=quoted(text), line=first.line)
        elif WILDCARD in limited and text != WILDCARD:
            self._add(name, "limited-after-everyone", kind=kind, name=quoted(text))

    def _check_amounts(self, limit: Limit, maximum: Amounts) -> Amounts:
        """Check a limit's amounts, and return its valid resource amounts."""
        name = quoted(limit.description)
        applications, position = limit.max_applications
        errors_before = self.diagnostics.error_count
        resources = parse_amounts(limit.max_resources, self.diagnostics, self.queue.path)
        if limit.max_resources:
            if not any(resources.values()) and self.diagnostics.error_count == errors_before:
                self._add(limit.position, "limit-without-resources", name=name)
        elif not applications:
            self._add(limit.position, "limit-without-amount", name=name)
        if too_much := excess(maximum, resources):
            self._add(limit.position, "limit-above-queue", name=name, excess=too_much)
        if 0 < (allowed := self.queue.max_applications.value) < applications:
            found = "applications-above-queue"
            self._add(position, found, name=name, applications=applications, most=allowed)
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
            self._add(name, "limit-above-parent", who=who, whose=whose, excess=too_much)
        if bound.applications and not 0 < allowed.applications <= bound.applications:
            number, most = allowed.applications or "any number of", bound.applications
            found = "applications-above-parent"
            self._add(name, found, who=who, whose=whose, applications=number, most=most)
        if not same:
            return allowed
        return allowed._replace(resources=smaller(allowed.resources, bound.resources))
