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
        path = queue.path
        template = queue.template
        is_parent = queue.is_parent or queue.has_children
        if is_parent and template and template.is_used and template.resources:
            parse_amounts(template.resources.guaranteed, diagnostics, path)
            parse_amounts(template.resources.maximum, diagnostics, path)
        above = maximum.get(queue.parent, {})
        own: Amounts = {}
        if queue.resources:
            position = queue.resources.position
            own = parse_amounts(queue.resources.maximum, diagnostics, path)
            guaranteed[queue] = parse_amounts(queue.resources.guaranteed, diagnostics, path)
            if too_much := excess(own, guaranteed[queue]):
                found = finding("guaranteed-above-max", queue=quoted(path), excess=too_much)
                diagnostics.add(position, found, path)
            if too_much := excess(above, own):
                found = finding("max-above-parent", queue=quoted(path), excess=too_much)
                diagnostics.add(position, found, path)
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
                words = {"queue": quoted(queue.path), "name": name, "excess": too_much}
                diagnostics.add(position, finding("children-above-queue", **words), queue.path)
        promised = own if any(own.values()) else total
        if promised and queue.parent:
            above = sums.setdefault(queue.parent, {})
            for resource, value in promised.items():
                above[resource] = above.get(resource, 0) + value
