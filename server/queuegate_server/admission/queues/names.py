"""Maps the schedulers' queue names to paths in the policy. Pure.

Kubernetes names may contain dots, which would add levels to a path. As in YuniKorn, a dot in a
name becomes `_dot_`; no Kubernetes name contains an underscore, so the result is unambiguous.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.tree import Partition
from queuegate.user_info import provided_queue
from queuegate_server.admission.queues.model import LOCAL_QUEUES, UNKNOWN_NAMES, QueueName
from queuegate_server.settings.queue_schedulers import KUEUE, YUNIKORN, Schedulers
from queuegate_server.settings.queue_subtrees import Subtree, prefix

PLACES: Final = "places"
MAX_LISTED: Final = 10
_DOT: Final = "_dot_"
MAX_NAME: Final = 1_024
"""The maximum length of a name. Label values have up to 63 characters, annotations far more."""
_MAX_QUOTED: Final = 100
_REMEDY: Final = "use 1 to 64 letters, digits and any of _ : # / @ - for each level"
_FULL_PATH: Final = f"write its full path, such as {ROOT}{SEPARATOR}dev"
_NAMESPACE: Final = "{namespace}"
_QUEUE: Final = "{queue}"


class AmbiguousNames(ValueError):
    """Raised for a policy in which a flat name would refer to several queues.

    Args:
        subtree: The scheduler whose names are flat, and the path below which it looks for them.
        queues: For each such name, the paths of its queues, parents first.
    """

    def __init__(self, subtree: Subtree, queues: Mapping[str, Sequence[str]]) -> None:
        self.queues = queues
        self.reason = f"{subtree.scheduler} knows queues only by the last level of their path"
        names = [
            f"{name} may be {_alternatives(paths)}"
            for name, paths in sorted(queues.items())[:MAX_LISTED]
        ]
        more = len(queues) - len(names)
        if more:
            names.append(f"and {more} more {'name' if more == 1 else 'names'}")
        super().__init__(
            f"{self.reason}, and {'; '.join(names)}: rename all but one queue with each name"
        )


class InvalidQueueName(ValueError):
    """Raised for a name that cannot refer to a queue in the policy. The message says why."""


def flat_subtrees(partition: Partition, schedulers: Schedulers) -> Iterator[Subtree]:
    """Yield the listed schedulers whose names are flat, each with its path as the policy spells it.

    Under Kubernetes RBAC there are none, because each name has only one path.
    """
    if partition.named_grants is not None:
        return
    for name, scheduler in schedulers.flat.items():
        yield Subtree(name, partition.canonical_path(scheduler.below) or scheduler.below)


class QueueNames:
    """Maps names to paths in one partition, and paths to names."""

    def __init__(self, partition: Partition, schedulers: Schedulers) -> None:
        """Index the partition's queues, unless they have been indexed before.

        Raises:
            AmbiguousNames: A scheduler whose names are flat may use several queues with the same
                last level.
        """
        self.partition = partition
        self._kueue = schedulers.kueue
        self._others = [
            (each, partition.canonical_path(each.path) or each.path) for each in schedulers.subtrees
        ]
        """The subtrees that are not YuniKorn's, and their paths in the policy's spelling."""
        self._below: dict[str, str] = {}
        self._flat: dict[str, Mapping[str, str]] = {}
        for subtree in flat_subtrees(partition, schedulers):
            paths, repeated = partition.last_levels(subtree.path)
            if repeated:
                raise AmbiguousNames(subtree, repeated)
            self._below[subtree.scheduler], self._flat[subtree.scheduler] = subtree.path, paths

    def path(self, found: QueueName, namespace: str) -> str:
        """Return the path of the queue that a name in an object refers to.

        A flat name that the policy lacks refers to a missing queue directly below the scheduler's
        path, so it is decided like any missing queue. A YuniKorn queue name refers to the queue
        that a `provided` placement rule without a parent would select; `review_policy` warns about
        other rules.

        Args:
            found: The name.
            namespace: The object's namespace.

        Raises:
            InvalidQueueName: The name cannot be a queue's name.
        """
        if found.name in UNKNOWN_NAMES:
            raise InvalidQueueName(UNKNOWN_NAMES[found.name])
        if len(found.name) > MAX_NAME:
            raise invalid(found.name, f"write at most {MAX_NAME} characters")
        return self._path(found, namespace)

    def _path(self, found: QueueName, namespace: str) -> str:
        if found.scheduler in self._flat:
            return self._flat_path(found.scheduler, found.name)
        if found.scheduler == YUNIKORN:
            return self._yunikorn_path(found.name)
        template = self._template(found)
        if template is None:
            return self.canonical(found.name, found.name, _FULL_PATH)
        if not namespace and found.template == LOCAL_QUEUES and _NAMESPACE in template:
            # Objects in any namespace may copy the name, such as the TrainJobs that refer to a
            # ClusterTrainingRuntime. Therefore, the queue above the queues of all namespaces
            # decides.
            template = prefix(template)
        path = template.replace(_NAMESPACE, _level(namespace))
        return self.canonical(found.name, path.replace(_QUEUE, _level(found.name)))

    def below(self, place: QueueName, namespace: str) -> str:
        """Return the path below which a place can name queues.

        Args:
            place: Any name in the place.
            namespace: The object's namespace.
        """
        template = self._template(place)
        if template is None:
            return self._below.get(place.scheduler, ROOT)
        path = prefix(template.replace(_NAMESPACE, _level(namespace) or _NAMESPACE))
        return self.partition.canonical_path(path) or path

    def name(self, path: str, place: QueueName, namespace: str) -> str | None:
        """Return the name by which a user refers to a queue in a place.

        Args:
            path: The queue's path, below the path that `below` returns.
            place: Any name in the place.
            namespace: The object's namespace.

        Returns:
            The name, or None if the place cannot name the queue.
        """
        name = path
        template = self._template(place)
        if template is not None:
            match = _pattern(template, _level(namespace)).fullmatch(path)
            name = "" if match is None else _written(match["queue"])
        elif place.scheduler in self._flat:
            name = _written(path.rpartition(SEPARATOR)[2])
        try:
            return name if self.path(place._replace(name=name), namespace) == path else None
        except InvalidQueueName:
            return None

    def _template(self, found: QueueName) -> str | None:
        """Return the template that maps a Kueue name to a path; None for other schedulers, and if
        the settings do not list Kueue.
        """
        if found.scheduler != KUEUE or self._kueue is None:
            return None
        template: str = getattr(self._kueue, found.template)
        return template

    def _flat_path(self, scheduler: str, name: str) -> str:
        path = self.canonical(name, f"{self._below[scheduler]}{SEPARATOR}{_level(name)}")
        return self._flat[scheduler].get(path.rpartition(SEPARATOR)[2], path)

    def _yunikorn_path(self, name: str) -> str:
        path = self.canonical(name, provided_queue(name))
        for subtree, other in self._others:
            if f"{path}{SEPARATOR}".startswith(f"{other}{SEPARATOR}"):
                raise InvalidQueueName(
                    f"{_shortened(name)!r} is below {other}, where the policy has the queues of"
                    f" {subtree.scheduler}: name a YuniKorn queue"
                )
        return path

    def asked(
        self,
        paths: Sequence[str],
        place: QueueName,  # noqa: ARG002 - for RbacQueueNames
        namespace: str,  # noqa: ARG002 - for RbacQueueNames
    ) -> Sequence[str]:
        """Return the paths to check for queues that the policy lists below the path from `below`.

        Args:
            paths: The paths of the queues.
            place: Any name in the place.
            namespace: The object's namespace.
        """
        return paths

    def canonical(self, name: str, path: str, remedy: str = _REMEDY) -> str:
        """Return the canonical spelling of a path. Raises InvalidQueueName."""
        canonical = self.partition.canonical_path(path)
        if canonical is None:
            raise invalid(name, remedy)
        return canonical


@functools.lru_cache(maxsize=100)
def _pattern(template: str, namespace: str) -> re.Pattern[str]:
    """Return a pattern that matches the paths built from a template, with the group `queue`."""
    text = re.escape(template).replace(re.escape(_NAMESPACE), re.escape(namespace))
    first, *more = text.split(re.escape(_QUEUE))
    return re.compile(f"{first}(?P<queue>[^.]+){'(?P=queue)'.join(more)}", re.IGNORECASE)


def invalid(name: str, remedy: str) -> InvalidQueueName:
    """Return the error for a name that no queue has."""
    return InvalidQueueName(f"{_shortened(name)!r} cannot be a queue name: {remedy}")


def _level(name: str) -> str:
    return name.replace(SEPARATOR, _DOT)


def _written(level: str) -> str:
    return level.replace(_DOT, SEPARATOR)


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_QUOTED else f"{name[:_MAX_QUOTED]}…"


def _alternatives(paths: Sequence[str]) -> str:
    more = len(paths) - MAX_LISTED
    return " or ".join([*paths[:MAX_LISTED], *([f"{more} more queues"] if more > 0 else [])])
