"""Rules about partitions and queues: names, the root, duplicates, numbers of applications.

They are those of `Validate`, `checkQueuesStructure`, `checkQueues` and
`checkQueueMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. One
more is the scheduler's (`initialPartitionFromConfig`): it refuses a top queue that is
spelled `ROOT`, which the validator lets pass.
"""

from queuegate.policy.names import DEFAULT_PARTITION, ROOT, is_queue_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.model import PartitionConfig, Queue


def normal_name(name: str) -> str:
    """Return what YuniKorn makes of a partition's name: no name is `default`, in any case."""
    return DEFAULT_PARTITION if not name or name.lower() == DEFAULT_PARTITION else name


def check_partition_names(partitions: list[PartitionConfig], diagnostics: Diagnostics) -> None:
    """Check that names are unique without regard to case."""
    first: dict[str, PartitionConfig] = {}
    for partition in partitions:
        if not partition.name_known:
            continue
        name = normal_name(partition.name)
        seen = first.setdefault(name.lower(), partition)
        if seen is not partition:
            position = partition.name_position or partition.position
            line = (seen.name_position or seen.position).line
            message = f"partition {quoted(name)} is defined twice, first in line {line}"
            diagnostics.error(position, message, "rename or remove one; case does not count")


def check_queues(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the tree of a partition's queues, but not what they contain."""
    if not partition.has_queues:
        name = quoted(normal_name(partition.name))
        message = f"partition {name} has no queues"
        diagnostics.error(partition.position, message, "add them; [] stands for a root alone")
    if not partition.queues:
        return
    root = partition.queues[0]
    _check_root(root, diagnostics)
    first: dict[str, Queue] = {}
    for queue in partition.queues:
        if queue.above is None:
            continue
        if queue.name_known:
            _check_name(queue, first, diagnostics)
        _check_max_applications(queue, queue.above, diagnostics)


def _check_root(root: Queue, diagnostics: Diagnostics) -> None:
    if root.name != ROOT:
        message = (
            f"the top queue is spelled {quoted(root.name)}: "
            "YuniKorn validates it but refuses to load it"
        )
        diagnostics.error(root.name_position, message, f"write {ROOT}", root.path)
    resources = root.resources
    if resources and (resources.guaranteed is not None or resources.maximum is not None):
        message = "the root queue must not have resources"
        diagnostics.error(
            resources.position, message, "remove them; the nodes define them", root.path
        )


def _check_name(queue: Queue, first: dict[str, Queue], diagnostics: Diagnostics) -> None:
    position = queue.name_position or queue.position
    if not is_queue_name(queue.name):
        message = (
            f"{quoted(queue.name)} is not a queue name" if queue.name else "a queue has no name"
        )
        remedy = "use 1 to 64 letters, digits and _ : # / @ - without dots"
        diagnostics.error(position, message, remedy, queue.path)
        return
    seen = first.setdefault(queue.path, queue)
    if seen is not queue:
        line = seen.position.line if seen.position else 0
        message = f"queue {quoted(queue.path)} is defined twice, first in line {line}"
        diagnostics.error(
            position, message, "rename or remove one; case does not count", queue.path
        )


def _check_max_applications(queue: Queue, above: Queue, diagnostics: Diagnostics) -> None:
    most = above.max_applications.value if above.max_applications else 0
    own = queue.max_applications.value if queue.max_applications else 0
    if not most or 0 < own <= most:
        return
    position = queue.max_applications.position if queue.max_applications else queue.position
    says = f"allows {own} applications" if own else "does not limit its applications"
    message = f"queue {quoted(queue.path)} {says}, {quoted(above.path)} above it allows {most}"
    diagnostics.error(position, message, f"set maxapplications from 1 to {most}", queue.path)
