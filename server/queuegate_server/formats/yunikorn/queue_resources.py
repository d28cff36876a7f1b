"""Checks the guaranteed and maximum resources of queues.

The rules follow `checkQueueResource` in YuniKorn's `configvalidator.go`. A child template's
resources are checked only at parent queues and in a template that is not empty, because YuniKorn
ignores them elsewhere.
"""

from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yunikorn.amounts import Amounts, excess, parse_amounts, smaller
from queuegate_server.formats.yunikorn.model import PartitionConfig, QueueConfig


def check_resources(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the resources of all queues in the partition."""
    guaranteed: dict[QueueConfig, Amounts] = {}
    maximum: dict[QueueConfig | None, Amounts] = {}
    for queue in partition.queues:
        _check_template(queue, diagnostics)
        above = maximum.get(queue.parent, {})
        own: Amounts = {}
        if queue.resources:
            own = parse_amounts(queue.resources.maximum, diagnostics, queue.path)
            guaranteed[queue] = parse_amounts(queue.resources.guaranteed, diagnostics, queue.path)
            _check_excess(queue, "guaranteed-above-max", own, guaranteed[queue], diagnostics)
            _check_excess(queue, "max-above-parent", above, own, diagnostics)
        if own or above:
            maximum[queue] = smaller(own, above)
    if guaranteed:
        _check_sums(partition.queues, guaranteed, maximum, diagnostics)


def _check_template(queue: QueueConfig, diagnostics: Diagnostics) -> None:
    """Check the amounts in a child template, where YuniKorn reads it."""
    template = queue.template
    is_parent = queue.is_parent or queue.has_children
    if is_parent and template and template.is_used and template.resources:
        parse_amounts(template.resources.guaranteed, diagnostics, queue.path)
        parse_amounts(template.resources.maximum, diagnostics, queue.path)


def _check_excess(
    queue: QueueConfig, fault: str, limit: Amounts, amounts: Amounts, diagnostics: Diagnostics
) -> None:
    """Report the finding `fault` if amounts of a queue exceed a limit."""
    if too_much := excess(limit, amounts):
        position = queue.resources.position if queue.resources else queue.position
        found = finding(fault, queue=quoted(queue.path), excess=too_much)
        diagnostics.add(position, found, queue.path)


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
        promise = guaranteed.get(queue, {})
        for name, limit in (("guaranteed", promise), ("max", maximum.get(queue, {}))):
            if too_much := excess(limit, total):
                position = queue.resources.position if queue.resources else queue.position
                words = {"queue": quoted(queue.path), "name": name, "excess": too_much}
                diagnostics.add(position, finding("children-above-queue", **words), queue.path)
        promised = promise if any(promise.values()) else total
        if promised and queue.parent:
            above = sums.setdefault(queue.parent, {})
            for resource, value in promised.items():
                above[resource] = above.get(resource, 0) + value
