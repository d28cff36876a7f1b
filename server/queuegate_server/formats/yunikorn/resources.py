"""Rules about the resources of queues: parents hold what their children are promised.

They are those of `checkQueueResource` in YuniKorn's `configvalidator.go`. The resources
of a child template are parsed only when its scheduler builds a parent queue.
"""

from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.model import PartitionConfig, Queue, Resources
from queuegate_server.formats.yunikorn.quantities import Amounts, amounts, excess, is_zero, smaller


def check_resources(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the resources of all queues of a partition."""
    guaranteed: dict[Queue, Amounts] = {}
    maximum: dict[Queue, Amounts] = {}
    for queue in partition.queues:
        _check_template(queue, diagnostics)
        above = maximum.get(queue.above, {}) if queue.above else {}
        own: Amounts = {}
        if queue.resources:
            own = amounts(queue.resources.maximum, diagnostics, queue.path)
            guaranteed[queue] = amounts(queue.resources.guaranteed, diagnostics, queue.path)
            _check_own(
                queue, queue.resources, guaranteed[queue], own, above, diagnostics=diagnostics
            )
        if own or above:
            maximum[queue] = smaller(own, above)
    if guaranteed:
        _check_sums(partition.queues, guaranteed, maximum, diagnostics)


def _check_template(queue: Queue, diagnostics: Diagnostics) -> None:
    template = queue.template_resources
    if template and (queue.is_parent or queue.has_children):
        amounts(template.guaranteed, diagnostics, queue.path)
        amounts(template.maximum, diagnostics, queue.path)


def _check_own(
    queue: Queue,
    resources: Resources,
    guaranteed: Amounts,
    maximum: Amounts,
    above: Amounts,
    *,
    diagnostics: Diagnostics,
) -> None:
    too_much = excess(maximum, guaranteed)
    if too_much:
        message = f"queue {quoted(queue.path)} is guaranteed more than its max: {too_much}"
        diagnostics.error(resources.position, message, "lower guaranteed or raise max", queue.path)
    too_much = excess(above, maximum)
    if too_much:
        message = f"queue {quoted(queue.path)} has a higher max than a queue above it: {too_much}"
        diagnostics.error(
            resources.position, message, "lower it here or raise it there", queue.path
        )


def _check_sums(
    queues: list[Queue],
    guaranteed: dict[Queue, Amounts],
    maximum: dict[Queue, Amounts],
    diagnostics: Diagnostics,
) -> None:
    """Compare what children are guaranteed together with what their parent has."""
    sums: dict[Queue, Amounts] = {}
    for queue in reversed(queues):
        total = sums.pop(queue, {})
        own = guaranteed.get(queue, {})
        for name, limit in (("guaranteed", own), ("max", maximum.get(queue, {}))):
            too_much = excess(limit, total)
            if too_much:
                position = queue.resources.position if queue.resources else queue.position
                message = (
                    f"the children of queue {quoted(queue.path)} are guaranteed more than "
                    f"its {name}: {too_much}"
                )
                remedy = f"lower guaranteed of the children or raise {name}"
                diagnostics.error(position, message, remedy, queue.path)
        promised = total if is_zero(own) else own
        if promised and queue.above:
            above = sums.setdefault(queue.above, {})
            for resource, value in promised.items():
                above[resource] = above.get(resource, 0) + value
