"""Maps the schedulers' names of queues to paths in the policy. Pure.

Kubernetes names may contain dots, which would add levels to a path. As in YuniKorn, a dot in a
name becomes `_dot_`; no Kubernetes name contains an underscore, so the result is unambiguous.
"""

from collections.abc import Mapping
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.tree import Partition
from queuegate.user_info import provided_queue
from queuegate_server.admission.queues.model import QueueName
from queuegate_server.settings.admission import Schedulers

YUNIKORN: Final = "yunikorn"
KUEUE: Final = "kueue"
PLACES: Final = "places"
FLAT: Final[Mapping[str, str]] = {
    "volcano": "volcano",
    "kai": "kai",
    "koordinator": "koordinator",
    "slurm-bridge": "slurm_bridge",
}
"""The schedulers with flat names, and their fields in `Schedulers`."""
MAX_LISTED: Final = 10
_DOT: Final = "_dot_"
_MAX_QUOTED: Final = 100


class AmbiguousNames(ValueError):
    """Raised for a policy in which a flat name would refer to several queues."""


class InvalidQueueName(ValueError):
    """Raised for a name that cannot refer to a queue of the policy. The message says why."""


class QueueNames:
    """Maps names to paths in one partition."""

    def __init__(self, partition: Partition, schedulers: Schedulers) -> None:
        """Index the partition's queues.

        Raises:
            AmbiguousNames: A scheduler with flat names is listed, and several queues have the same
                last level.
        """
        self.partition = partition
        self._kueue = schedulers.kueue
        listed = [name for name, field in FLAT.items() if getattr(schedulers, field) is not None]
        self._flat = _last_levels(partition, listed) if listed else {}

    def path(self, found: QueueName, namespace: str) -> str:
        """Return the path of the queue that a name in an object refers to.

        A flat name that the policy lacks refers to a missing queue below the root, so it is decided
        as any missing queue.

        Args:
            found: The name.
            namespace: The object's namespace.

        Raises:
            InvalidQueueName: The name cannot be that of a queue.
        """
        name = found.name
        if found.scheduler == KUEUE and self._kueue is not None:
            kueue = self._kueue
            template = kueue.clusterqueues if found.is_cluster_queue else kueue.localqueues
            path = template.replace("{namespace}", _level(namespace)).replace(
                "{queue}", _level(name)
            )
        elif found.scheduler == YUNIKORN:
            path = provided_queue(name)
        elif found.scheduler in FLAT:
            path = self._flat.get(name) or f"{ROOT}{SEPARATOR}{_level(name)}"
        else:
            path = name
        canonical = self.partition.path(path)
        if canonical is None:
            raise InvalidQueueName(
                f"{_shortened(name)!r} cannot be the name of a queue: use at most 64 letters,"
                " digits and any of _ : # / @ - for each level"
            )
        return canonical


def _level(name: str) -> str:
    return name.replace(SEPARATOR, _DOT)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_QUOTED else f"{name[:_MAX_QUOTED]}…"


def _last_levels(partition: Partition, schedulers: list[str]) -> Mapping[str, str]:
    """Return the paths by last level. Raises AmbiguousNames."""
    paths: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for path in partition.queues:
        name = path.rpartition(SEPARATOR)[2]
        first = paths.setdefault(name, path)
        if first != path:
            repeated.setdefault(name, [first]).append(path)
    if repeated:
        lines = [
            f"{name} may be {' or '.join(paths[:MAX_LISTED])}"
            for name, paths in sorted(repeated.items())[:MAX_LISTED]
        ]
        more = len(repeated) - len(lines)
        rest = f"; and {more} more names" if more > 0 else ""
        raise AmbiguousNames(
            f"{', '.join(schedulers)} knows queues only by the last level of their path, and"
            f" {'; '.join(lines)}{rest}: rename all but one queue of each name"
        )
    return paths
