"""The places in Kubernetes objects where each scheduler reads a queue name. Pure.

The places come from the schedulers' sources: YuniKorn's k8shim (`utils.go`), Kueue's
`jobframework` and `workload_types.go`, Volcano's `pg_controller_handler.go`, `jobflow_types.go` and
`hyperjob.go`, KAI-Scheduler's `default_grouper.go` and `skiptopowner.go`, Koordinator's
`elastic_quota.go`, slurm-bridge's `annotations.go`, the Spark operator's batch schedulers, and the
`SchedulingPolicy` of Kubeflow's training operator and MPI operator, of MindSpore's operator and of
the Paddle operator. Some keys are read only by operators, which write the scheduler's key into the
pods: KubeRay (`yunikorn_scheduler.go` up to 1.3), Grove (`scheduler/volcano/queue.go`) and NVIDIA's
Dynamo (`resolveKaiSchedulerQueueName`, `resolveVolcanoQueueName`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.kinds import (
    KNOWN_KINDS,
    METADATA_OF_POD_KINDS,
    NAMESPACE,
    POD_KINDS,
    WORKLOAD_KINDS,
    Kind,
)
from queuegate_server.admission.queues.model import LOCAL_QUEUES
from queuegate_server.admission.queues.names import PLACES
from queuegate_server.admission.queues.positions import ANNOTATIONS, LABELS
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import FLAT, KUEUE, YUNIKORN, Mode, Schedulers

SUBMIT: Final = Access.SUBMIT
ADMIN: Final = Access.ADMIN
_BOTH: Final = frozenset({LABELS, ANNOTATIONS})
_LABELS: Final = frozenset({LABELS})
_ANNOTATIONS: Final = frozenset({ANNOTATIONS})


class KeyPlace(NamedTuple):
    """A label or annotation with a particular key."""

    scheduler: str
    key: str
    maps: frozenset[str]
    """Where the key is searched for: labels, annotations, or both."""
    kinds: frozenset[Kind] | None = None
    """The kinds whose own metadata is searched; None for all kinds, at any depth unless
    `in_pods`."""
    access: Access = SUBMIT
    groups: frozenset[str] | None = None
    """The API groups whose kinds are searched for the key, at any depth; None for all groups."""
    in_pods: bool = False
    """Whether only certain metadata is searched: the metadata of `kinds` (or, if None, of objects
    that own pods), and the metadata of pod templates in all kinds."""
    overridden_by: tuple[tuple[str, str], ...] = ()
    """Keys, each with its map, that take precedence in a pod's metadata."""
    separator: str = ""
    """Separates several names in a value; empty if a value is one name."""
    is_read: bool = True
    """Whether the scheduler reads the key. If not, the name is only checked."""
    read_in: frozenset[str] = frozenset()
    """API groups whose kinds are exceptions: the key is read in them although `is_read` is false.
    """
    ignored_in: frozenset[Kind] = frozenset()
    """Kinds in whose own metadata the scheduler ignores the key."""
    is_read_in_templates: bool = True
    """Whether the scheduler reads the key in pod templates."""
    joined_label: str = ""
    """A label. Each of its values in the object adds a name: the key's value, a hyphen, and that
    value."""


class FieldPlace(NamedTuple):
    """A field of a kind."""

    scheduler: str
    kind: Kind
    path: tuple[str, ...]
    """The path from the object to the field, one member name per step. Lists along the path are
    searched.
    """
    access: Access = SUBMIT
    template: str = LOCAL_QUEUES
    """See `QueueName`."""
    scheduler_field: tuple[str, ...] = ()
    """The field that names the scheduler, if the object has one. If set, it decides which scheduler
    reads the queue."""
    is_override: bool = False
    """Whether the object takes its queue from another object if it lacks the field."""


PROJECT: Final = "project"
"""KAI's label for a project."""
_QUOTA: Final = "quota.scheduling.koordinator.sh"
_SLURM: Final = "slurmjob.slinky.slurm.net"
_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_QUEUE: Final = "yunikorn.apache.org/queue"
_POD_KINDS: Final = frozenset(POD_KINDS)
_GROVE: Final = frozenset({"grove.io"})
_DYNAMO: Final = frozenset({"nvidia.com"})
_RAY: Final = frozenset({"ray.io"})

KEYS: Final[Mapping[str, Sequence[KeyPlace]]] = {
    YUNIKORN: (
        # YuniKorn reads only pods.
        KeyPlace(YUNIKORN, _QUEUE, _BOTH, ignored_in=_POD_KINDS - METADATA_OF_POD_KINDS),
        KeyPlace(
            YUNIKORN,
            "queue",
            _LABELS,
            METADATA_OF_POD_KINDS,
            in_pods=True,
            overridden_by=((LABELS, _QUEUE), (ANNOTATIONS, _QUEUE)),
        ),
        KeyPlace(YUNIKORN, "yunikorn.apache.org/parentqueue", _ANNOTATIONS, frozenset({NAMESPACE})),
        KeyPlace(YUNIKORN, "yunikorn.apache.org/queue-name", _LABELS, groups=_RAY),
    ),
    KUEUE: (
        # Kueue reads the label of the object that it queues, and ignores that object's pods.
        KeyPlace(KUEUE, _KUEUE_QUEUE, _LABELS, is_read_in_templates=False),
        # Kueue reads only the label, but another controller may copy the annotation into it.
        KeyPlace(KUEUE, _KUEUE_QUEUE, _ANNOTATIONS, is_read=False),
    ),
    "volcano": (
        KeyPlace("volcano", "scheduling.volcano.sh/queue-name", _BOTH),
        KeyPlace("volcano", "volcano.sh/queue-name", _BOTH),
        # Dynamo copies the annotations of its components to Grove's cliques.
        KeyPlace(
            "volcano", "scheduling.grove.io/volcano-queue", _ANNOTATIONS, groups=_GROVE | _DYNAMO
        ),
        KeyPlace("volcano", "nvidia.com/volcano-queue", _ANNOTATIONS, groups=_DYNAMO),
    ),
    "kai": (KeyPlace("kai", "nvidia.com/kai-scheduler-queue", _ANNOTATIONS, groups=_DYNAMO),),
    "koordinator": (
        KeyPlace("koordinator", f"{_QUOTA}/name", _LABELS),
        KeyPlace("koordinator", f"{_QUOTA}/parent", _LABELS, access=ADMIN),
    ),
    "slurm-bridge": (
        KeyPlace("slurm-bridge", f"{_SLURM}/partition", _BOTH, separator=","),
        KeyPlace("slurm-bridge", f"{_SLURM}/account", _BOTH),
    ),
}
"""The labels and annotations of each scheduler; KAI's own depend on the settings."""

FIELDS: Final[Mapping[str, Sequence[FieldPlace]]] = {
    scheduler: [
        FieldPlace(kind=kind, **dict(field))
        for kind, known in KNOWN_KINDS.items()
        for field in known.fields
        if field.scheduler == scheduler
    ]
    for scheduler in (YUNIKORN, KUEUE, *FLAT)
}
"""The fields of each scheduler."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all schedulers that the settings list."""

    keys: Mapping[str, Mapping[str, tuple[KeyPlace, ...]]]
    """The places by map (labels or annotations) and key."""
    fields: Mapping[Kind, tuple[FieldPlace, ...]]
    modes: Mapping[str, Mode]
    """The mode of each scheduler and, by position, of each custom place."""
    joined_labels: frozenset[str]
    """The labels with which names are joined."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds that should name a queue: kinds that become pods, and kinds with a field."""
        return _POD_KINDS.union(
            WORKLOAD_KINDS,
            (
                kind
                for kind, fields in self.fields.items()
                if any(each.access is SUBMIT and not each.is_override for each in fields)
            ),
        )

    def elsewhere(self) -> "Places":
        """Return the places in pods that YuniKorn does not schedule: all except those of YuniKorn's
        keys that are searched for only in certain metadata, such as the pod label `queue`.
        """
        keys = {
            map_name: {
                key: tuple(
                    each for each in found if not (each.scheduler == YUNIKORN and each.in_pods)
                )
                for key, found in by_key.items()
            }
            for map_name, by_key in self.keys.items()
        }
        return replace(self, keys=keys)


def build_places(settings: QueueChecks) -> Places:
    """Return the places of the schedulers in the settings."""
    keys: dict[str, dict[str, list[KeyPlace]]] = {LABELS: {}, ANNOTATIONS: {}}
    fields: dict[Kind, list[FieldPlace]] = {}
    modes: dict[str, Mode] = {}
    for place in _places(settings, modes):
        if isinstance(place, FieldPlace):
            fields.setdefault(place.kind, []).append(place)
            continue
        for name in place.maps:
            keys[name].setdefault(place.key, []).append(place)
    return Places(
        {
            name: {key: tuple(places) for key, places in by_key.items()}
            for name, by_key in keys.items()
        },
        {kind: tuple(places) for kind, places in fields.items()},
        modes,
        frozenset(
            each.joined_label
            for found in keys[LABELS].values()
            for each in found
            if each.joined_label
        ),
    )


def own_scheduler(position: int) -> str:
    """Return the scheduler name for a custom place, by its position."""
    return f"{PLACES}[{position}]"


def listed_schedulers(schedulers: Schedulers) -> Iterator[tuple[str, Mode | None]]:
    """Yield the names of the built-in schedulers in the settings, each with its own mode."""
    for name in (YUNIKORN, KUEUE, *FLAT):
        scheduler = getattr(schedulers, FLAT.get(name, name))
        if scheduler is not None:
            yield name, scheduler.mode


def only_scheduler(schedulers: Schedulers) -> str:
    """Return the name of the only scheduler in the settings; empty if there are several."""
    own = map(own_scheduler, range(len(schedulers.places)))
    names = [*(name for name, _ in listed_schedulers(schedulers)), *own]
    return names[0] if len(names) == 1 else ""


def checked_schedulers(settings: QueueChecks) -> Iterator[tuple[str, Mode]]:
    """Yield the schedulers and custom places in the settings, each with the mode that applies."""
    is_off = settings.mode is Mode.OFF
    own = (
        (own_scheduler(position), each.mode)
        for position, each in enumerate(settings.schedulers.places)
    )
    for name, mode in (*listed_schedulers(settings.schedulers), *own):
        yield name, Mode.OFF if is_off else mode or settings.mode


def enforced_mode(settings: QueueChecks, places: Places) -> Mode:
    """Return the strictest mode of all schedulers; `off` if nothing is checked."""
    modes = set(places.modes.values())
    if settings.unqueued != "allow":
        modes.add(settings.mode)
    if settings.mode is Mode.OFF:
        return Mode.OFF
    return next((mode for mode in (Mode.DENY, Mode.WARN) if mode in modes), Mode.OFF)


def _places(settings: QueueChecks, modes: dict[str, Mode]) -> Iterator[KeyPlace | FieldPlace]:
    for name, mode in listed_schedulers(settings.schedulers):
        modes[name] = mode or settings.mode
        yield from KEYS.get(name, ())
        yield from FIELDS.get(name, ())
    kai = settings.schedulers.kai
    if kai is not None:
        yield KeyPlace("kai", kai.label, _LABELS)
        # Only Grove, which creates KAI's pod groups for its pods, reads the annotation.
        yield KeyPlace("kai", kai.label, _ANNOTATIONS, is_read=False, read_in=_GROVE)
        if kai.project_label:
            yield KeyPlace(
                "kai",
                PROJECT,
                _LABELS,
                in_pods=True,  # KAI reads it in pods and in their owners, which may be of any kind
                overridden_by=((LABELS, kai.label),),
                joined_label=kai.node_pool_label,
            )
    for position, own in enumerate(settings.schedulers.places):
        name = own_scheduler(position)
        modes[name] = own.mode or settings.mode
        if own.label is not None:
            yield KeyPlace(name, own.label, _BOTH)
        elif own.kind is not None and own.field is not None:
            group, _, kind = own.kind.rpartition("/")
            yield FieldPlace(name, (group, kind), tuple(own.field.split(".")))
