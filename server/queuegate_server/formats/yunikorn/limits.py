"""Rules about the limits of users and groups.

They are those of `checkLimitsStructure`, `checkLimits`, `checkLimitResource` and
`checkLimitMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from queuegate.policy.acl import WILDCARD
from queuegate.policy.names import ROOT, is_group_name, is_user_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yunikorn.inherited_limits import check_inherited
from queuegate_server.formats.yunikorn.model import Limit, PartitionConfig, Queue
from queuegate_server.formats.yunikorn.quantities import Amounts, amounts, excess, is_zero


class _Kind(NamedTuple):
    word: str
    is_valid: Callable[[str], bool]


_USER: Final = _Kind("user", is_user_name)
_GROUP: Final = _Kind("group", is_group_name)


def check_limits(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check all limits of a partition; those of the partition itself are its root's."""
    if not partition.queues:
        return
    root = partition.queues[0]
    if partition.limits and not root.limits:
        root.limits = partition.limits
    elif partition.limits and _content(partition.limits) != _content(root.limits):
        position = partition.limits[0].position
        message = "the limits of the partition and those of its root queue differ"
        diagnostics.error(
            position, message, "give the limits in one of the two places only", root.path
        )
    limited = False
    for queue in partition.queues:
        if queue.limits:
            limited = True
            _check_queue(queue, diagnostics)
    if limited:
        check_inherited(partition.queues, diagnostics)


def _content(limits: list[Limit]) -> list[object]:
    """Return what limits say, to compare; a list that is missing is not an empty one."""
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


def _check_queue(queue: Queue, diagnostics: Diagnostics) -> None:
    maximum: Amounts = {}
    if queue.name != ROOT and queue.resources:
        # Faults in the queue's own resources are reported with those.
        maximum = amounts(queue.resources.maximum, Diagnostics(""), queue.path)
    users: dict[str, Scalar] = {}
    groups: dict[str, Scalar] = {}
    for limit in queue.limits:
        if not limit.users and not limit.groups:
            message = f"limit {quoted(limit.description)} is for no user and no group"
            diagnostics.error(limit.position, message, "add users or groups", queue.path)
        for name in limit.users or ():
            _check_name(_USER, name, users, diagnostics, queue.path)
        for name in limit.groups or ():
            _check_name(_GROUP, name, groups, diagnostics, queue.path)
        if limit.groups and groups.keys() == {WILDCARD}:
            message = 'the group "*" is limited, but no group before it'
            remedy = "name a group first, or limit the queue instead"
            diagnostics.error(groups[WILDCARD], message, remedy, queue.path)
        _check_amounts(limit, queue, maximum, diagnostics)


def _check_name(
    kind: _Kind, name: Scalar, seen: dict[str, Scalar], diagnostics: Diagnostics, queue: str
) -> None:
    text = name.text
    if text != WILDCARD and not kind.is_valid(text):
        message = f"{quoted(text)} is not a {kind.word} name"
        diagnostics.error(name, message, 'correct it, or write "*" for everybody', queue)
        return
    first = seen.setdefault(text, name)
    if first is not name:
        message = f"{kind.word} {quoted(text)} is limited twice, first in line {first.line}"
        diagnostics.error(name, message, "keep one of the two", queue)
    elif WILDCARD in seen and text != WILDCARD:
        message = f'{kind.word} {quoted(text)} is limited after the {kind.word} "*"'
        diagnostics.error(name, message, f'put the limit of the {kind.word} "*" last', queue)


def _check_amounts(limit: Limit, queue: Queue, maximum: Amounts, diagnostics: Diagnostics) -> None:
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
        allowed, most = limit.max_applications, queue.max_applications.value
        if 0 < most < allowed.value:
            message = f"limit {name} allows {allowed.value} applications, the queue only {most}"
            diagnostics.error(allowed.position, message, "lower maxapplications", queue.path)
