"""Maps the schedulers' queue names to paths under Kubernetes RBAC. Pure.

Settings cannot change these paths. Volcano's names are those of `ResolveWorkloadQueueReference` in
its `pkg/util`.
"""

from collections.abc import Sequence
from typing import Final

from queuegate.policy.named_grants import NO_NAMESPACE, NamedGrants, level_of, name_of
from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.model import QueueName
from queuegate_server.admission.queues.names import PLACES, QueueNames, invalid
from queuegate_server.settings.queue_schedulers import KUEUE, Schedulers

LEVELS: Final = {"volcano": "volcano-queues", "kai": "kai-queues", "koordinator": "elasticquotas"}
"""The level of the path that holds a scheduler's queues, by scheduler, for schedulers whose queue
names are flat. Kueue's levels have the same names as its templates.
"""
_SCHEDULERS: Final = frozenset({KUEUE, *LEVELS})
_QUOTAS: Final = LEVELS["koordinator"]
OF_NAMESPACE: Final = "namespacequeues"
"""The level, and the resource, of Volcano's namespaced queues."""
NAMESPACE_PREFIX: Final = "namespace/"
"""The prefix of Volcano's names for queues at that level."""
_REMEDY: Final = "write the name of a Kubernetes object, with at most 64 characters"


class RbacQueueNames(QueueNames):
    """Maps names to paths, and paths to names, in a partition whose policy is Kubernetes RBAC."""

    def __init__(self, partition: Partition, schedulers: Schedulers, grants: NamedGrants) -> None:
        """Create a map. It does not need an index."""
        super().__init__(partition, schedulers)
        self._with_namespaces = grants.with_namespaces

    def _path(self, found: QueueName, namespace: str) -> str:
        if found.scheduler.startswith(PLACES):
            return super()._path(found, namespace)
        kind, name = self._split(found)
        level = level_of(name)
        if level is None:
            raise invalid(found.name, _REMEDY)
        path = SEPARATOR.join((*self._above(kind, namespace), level))
        return self.canonical(found.name, path, _REMEDY)

    def below(self, place: QueueName, namespace: str) -> str:
        """As in QueueNames, but the paths to check may be elsewhere; see `asked`."""
        if place.scheduler not in _SCHEDULERS:
            return ROOT
        kind, _ = self._split(place)
        if kind == _QUOTAS:
            return f"{ROOT}{SEPARATOR}{kind}"
        # The policy lists a queue without a namespace once, although its path may have one.
        return SEPARATOR.join(self._above(kind, namespace if place.scheduler == KUEUE else ""))

    def asked(self, paths: Sequence[str], place: QueueName, namespace: str) -> Sequence[str]:
        """As in QueueNames."""
        if place.scheduler not in LEVELS:
            return paths
        kind, _ = self._split(place)
        above = SEPARATOR.join(self._above(kind, namespace))
        depth = 2 + (kind in self._with_namespaces)
        queues = [path for path in paths if path.count(SEPARATOR) == depth]
        return [f"{above}{SEPARATOR}{path.rpartition(SEPARATOR)[2]}" for path in queues]

    def name(self, path: str, place: QueueName, namespace: str) -> str | None:
        """As in QueueNames."""
        if place.scheduler not in _SCHEDULERS:
            return super().name(path, place, namespace)
        return name_of(path.rpartition(SEPARATOR)[2])

    def _split(self, found: QueueName) -> tuple[str, str]:
        """Return the level of a queue's kind, and its name. Raises InvalidQueueName."""
        name = found.name
        if found.scheduler == KUEUE:
            return found.template, name
        kind = LEVELS.get(found.scheduler)
        if kind is None:
            raise invalid(name, f"Kubernetes' RBAC cannot grant queues of {found.scheduler}")
        if found.scheduler == "volcano" and name.startswith(NAMESPACE_PREFIX):
            return OF_NAMESPACE, name.removeprefix(NAMESPACE_PREFIX)
        return kind, name

    def _above(self, kind: str, namespace: str) -> list[str]:
        """Return the levels above the name of a queue.

        Objects in any namespace may copy a name from an object without one, so only cluster-wide
        grants count there. The same holds for Koordinator's quotas: their names have no namespace.
        """
        levels = [ROOT, kind]
        if kind in self._with_namespaces:
            levels.append(NO_NAMESPACE if kind == _QUOTAS else namespace or NO_NAMESPACE)
        return levels


def queue_names(partition: Partition, schedulers: Schedulers) -> QueueNames:
    """Return the names of a partition's queues. Raises AmbiguousNames."""
    grants = partition.named_grants
    if grants is None:
        return QueueNames(partition, schedulers)
    return RbacQueueNames(partition, schedulers, grants)
