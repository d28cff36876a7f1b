"""Maps the schedulers' names of queues to paths in the policy. Pure.

Kubernetes names may contain dots, which would add levels to a path. As in YuniKorn, a dot in a
name becomes `_dot_`; no Kubernetes name contains an underscore, so the result is unambiguous.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.tree import Partition
from queuegate.user_info import provided_queue
from queuegate_server.admission.queues.model import UNKNOWN_NAMES, QueueName
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
MAX_NAME: Final = 1_024
"""The maximum length of a name. Label values have up to 63 characters, annotations far more."""
_MAX_QUOTED: Final = 100
_REMEDY: Final = "use 1 to 64 letters, digits and any of _ : # / @ - for each level"
_FULL_PATH: Final = f"write its full path, such as {ROOT}{SEPARATOR}dev"


class AmbiguousNames(ValueError):
    """Raised for a policy in which a flat name would refer to several queues.

    Args:
        schedulers: The schedulers with flat names.
        queues: The paths of the queues with a name, parents first, by name.
    """

    def __init__(self, schedulers: Sequence[str], queues: Mapping[str, Sequence[str]]) -> None:
        self.queues = queues
        self.reason = (
            f"{' and '.join(schedulers)} {'knows' if len(schedulers) == 1 else 'know'} queues only"
            " by the last level of their path"
        )
        names = [
            f"{name} may be {_alternatives(paths)}"
            for name, paths in sorted(queues.items())[:MAX_LISTED]
        ]
        more = len(queues) - len(names)
        if more:
            names.append(f"and {more} more {'name' if more == 1 else 'names'}")
        super().__init__(
            f"{self.reason}, and {'; '.join(names)}: rename all but one queue of each name"
        )


class InvalidQueueName(ValueError):
    """Raised for a name that cannot refer to a queue of the policy. The message says why."""


def flat_schedulers(schedulers: Schedulers) -> list[str]:
    """Return the listed schedulers with flat names."""
    return [name for name, field in FLAT.items() if getattr(schedulers, field) is not None]


class QueueNames:
    """Maps names to paths in one partition."""

    def __init__(self, partition: Partition, schedulers: Schedulers) -> None:
        """Index the partition's queues, unless they have been indexed before.

        Raises:
            AmbiguousNames: A scheduler with flat names is listed, and several queues have the same
                last level.
        """
        self.partition = partition
        self._kueue = schedulers.kueue
        self._flat: Mapping[str, str] = {}
        if listed := flat_schedulers(schedulers):
            self._flat, repeated = partition.last_levels
            if repeated:
                raise AmbiguousNames(listed, repeated)

    def path(self, found: QueueName, namespace: str) -> str:
        """Return the path of the queue that a name in an object refers to.

        A flat name that the policy lacks refers to a missing queue below the root, so it is decided
        as any missing queue. A name for YuniKorn refers to the queue that the placement rule
        `provided` selects if it has no parent; `review_policy` warns about other rules.

        Args:
            found: The name.
            namespace: The object's namespace.

        Raises:
            InvalidQueueName: The name cannot be that of a queue.
        """
        if found.name in UNKNOWN_NAMES:
            raise InvalidQueueName(UNKNOWN_NAMES[found.name])
        if len(found.name) > MAX_NAME:
            raise _invalid(found.name, f"write at most {MAX_NAME} characters")
        if found.scheduler in FLAT:
            return self._flat_path(found.name)
        if found.scheduler == YUNIKORN:
            return self._canonical(found.name, provided_queue(found.name))
        if found.scheduler != KUEUE or self._kueue is None:
            return self._canonical(found.name, found.name, _FULL_PATH)
        if found.is_cluster_queue:
            template = self._kueue.clusterqueues
        else:
            template = self._kueue.localqueues
            if not namespace and "{namespace}" in template:
                # Objects in any namespace may copy the name, such as the TrainJobs that refer to a
                # ClusterTrainingRuntime. So the queue above those of all namespaces decides.
                template = _above_namespaces(template)
        path = template.replace("{namespace}", _level(namespace))
        return self._canonical(found.name, path.replace("{queue}", _level(found.name)))

    def _flat_path(self, name: str) -> str:
        path = self._canonical(name, f"{ROOT}{SEPARATOR}{_level(name)}")
        return self._flat.get(path.rpartition(SEPARATOR)[2], path)

    def _canonical(self, name: str, path: str, remedy: str = _REMEDY) -> str:
        canonical = self.partition.path(path)
        if canonical is None:
            raise _invalid(name, remedy)
        return canonical


def _invalid(name: str, remedy: str) -> InvalidQueueName:
    return InvalidQueueName(f"{_shortened(name)!r} cannot be the name of a queue: {remedy}")


def _above_namespaces(template: str) -> str:
    """Return the part of a path's template above its first placeholder."""
    return template.partition("{")[0].rpartition(SEPARATOR)[0]


def _level(name: str) -> str:
    return name.replace(SEPARATOR, _DOT)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_QUOTED else f"{name[:_MAX_QUOTED]}…"


def _alternatives(paths: Sequence[str]) -> str:
    more = len(paths) - MAX_LISTED
    return " or ".join([*paths[:MAX_LISTED], *([f"{more} more queues"] if more > 0 else [])])
