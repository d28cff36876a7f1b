"""Rules for partitions and queues: names, the root, duplicates, numbers of applications.

They are those of `Validate`, `checkQueuesStructure`, `checkQueues` and
`checkQueueMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. One more is
the scheduler's (`initialPartitionFromConfig`): it refuses a top queue that is spelled `ROOT`,
which the validator accepts.
"""

from queuegate.policy.names import DEFAULT_PARTITION, ROOT, is_queue_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.model import PartitionConfig, QueueConfig


def normalized_name(name: str) -> str:
    """Return a partition's name as YuniKorn uses it: `default` if empty, or if spelled so in any
    case.
    """
    return DEFAULT_PARTITION if not name or name.lower() == DEFAULT_PARTITION else name


def check_partition_names(partitions: list[PartitionConfig], diagnostics: Diagnostics) -> None:
    """Check that names are unique, ignoring case."""
    first: dict[str, PartitionConfig] = {}
    for partition in partitions:
        if not partition.name_known:
            continue
        name = normalized_name(partition.name)
        seen = first.setdefault(name.lower(), partition)
        if seen is not partition:
            position = partition.name_position or partition.position
            line = (seen.name_position or seen.position).line
            message = f"partition {quoted(name)} is defined twice, first on line {line}"
            diagnostics.error(position, message, "rename or remove one; case is ignored")


def check_queues(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the tree of a partition's queues, but not their contents."""
    if not partition.has_queues:
        name = quoted(normalized_name(partition.name))
        message = f"partition {name} has no queues"
        diagnostics.error(partition.position, message, "add them; [] means a root queue only")
    if not partition.queues:
        return
    root = partition.queues[0]
    _check_root(root, diagnostics)
    first: dict[str, QueueConfig] = {}
    for queue in partition.queues:
        if queue.parent is None:
            continue
        if queue.name_known:
            _check_name(queue, first, diagnostics)
        _check_max_applications(queue, queue.parent, diagnostics)


def _check_root(root: QueueConfig, diagnostics: Diagnostics) -> None:
    if root.name != ROOT:
        message = (
            f"the top queue is spelled {quoted(root.name)}: "
            "YuniKorn's validator accepts it, but its scheduler does not load it"
        )
        diagnostics.error(root.name_position, message, f"write {ROOT}", root.path)
    resources = root.resources
    if resources and (resources.guaranteed is not None or resources.maximum is not None):
        message = "the root queue must not have resources"
        diagnostics.error(
            resources.position, message, "remove them; the nodes define them", root.path
        )


def _check_name(
    queue: QueueConfig, first: dict[str, QueueConfig], diagnostics: Diagnostics
) -> None:
    position = queue.name_position or queue.position
    if not is_queue_name(queue.name):
        message = (
            f"{quoted(queue.name)} is not a queue name" if queue.name else "the queue has no name"
        )
        remedy = "use 1 to 64 letters, digits and _ : # / @ - without dots"
        diagnostics.error(position, message, remedy, queue.path)
        return
    seen = first.setdefault(queue.path, queue)
    if seen is not queue:
        line = seen.position.line if seen.position else 0
        message = f"queue {quoted(queue.path)} is defined twice, first on line {line}"
        diagnostics.error(position, message, "rename or remove one; case is ignored", queue.path)


def _check_max_applications(
    queue: QueueConfig, parent: QueueConfig, diagnostics: Diagnostics
) -> None:
    limit = parent.max_applications.value if parent.max_applications else 0
    own = queue.max_applications.value if queue.max_applications else 0
    if not limit or 0 < own <= limit:
        return
    position = queue.max_applications.position if queue.max_applications else queue.position
    allows = f"allows {own} applications" if own else "does not limit its applications"
    message = f"queue {quoted(queue.path)} {allows}, but its parent allows only {limit}"
    diagnostics.error(position, message, f"set maxapplications from 1 to {limit}", queue.path)
