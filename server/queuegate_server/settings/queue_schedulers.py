"""Settings of the schedulers whose queue names the webhook checks: `admission.queues.schedulers`.

They say where objects name a queue, and which path of the policy a name stands for.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from queuegate.policy.names import ROOT
from queuegate_server.config_fields import Section
from queuegate_server.settings.queue_subtrees import (
    Subtree,
    is_ambiguous,
    levels,
    may_meet,
    overlaps,
    prefix,
)

YUNIKORN: Final = "yunikorn"
KUEUE: Final = "kueue"
FLAT: Final[Mapping[str, str]] = {
    "volcano": "volcano",
    "kai": "kai",
    "koordinator": "koordinator",
    "slurm-bridge": "slurm_bridge",
}
"""The schedulers whose queue names are flat, and their fields in `Schedulers`."""
KUEUE_TEMPLATES: Final = ("localqueues", "clusterqueues", "cohorts")
"""The fields of `KueueScheduler` that are templates."""
_LABEL_KEY: Final = re.compile(
    r"(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
_KIND: Final = re.compile(r"(?:[a-z0-9][-.a-z0-9]{0,251}/)?[A-Z][A-Za-z0-9]{0,62}")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?/.*")
"""A kind that follows an API version. The core group has versions, but no name."""
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z][A-Za-z0-9]*)+")
_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")


class Mode(StrEnum):
    """What happens to an object whose queue the requester may not use."""

    OFF = "off"
    WARN = "warn"
    DENY = "deny"


def _text_of_mode(value: object) -> object:
    """Return `off` for false, because YAML 1.1 parsers such as Helm's read `off` as a boolean."""
    text = str(value).lower()
    return Mode.OFF if text == "false" else text if isinstance(value, str) else value


ModeSetting = Annotated[Mode, BeforeValidator(_text_of_mode)]


def _label_key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise ValueError(
            f"{text} is not a label key: write it like example.com/queue, or without a prefix"
        )
    return text


def _kind(text: str) -> str:
    if not _KIND.fullmatch(text):
        raise ValueError(
            "not a kind: write group/Kind, such as batch.example.com/TrainingRun, or a kind alone"
            " if it has no group, such as Pod"
        )
    if _VERSION.fullmatch(text):
        raise ValueError(
            f"begins with an API version instead of a group: write {text.partition('/')[2]}"
        )
    return text


def _field(text: str) -> str:
    if not _FIELD.fullmatch(text):
        raise ValueError(
            "not a field path: write its names from the top down, joined by dots, such as"
            " spec.scheduling.queue"
        )
    return text


def _like(pattern: re.Pattern[str]) -> WithJsonSchema:
    """Return the Helm chart's value schema for text that must match a pattern."""
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{pattern.pattern})$"})


def _template(text: str) -> str:
    placeholders = _PLACEHOLDER.findall(text)
    unknown = set(placeholders) - {"{namespace}", "{queue}"}
    if unknown:
        raise ValueError(
            f"unknown placeholder {min(unknown)}: the placeholders are {{namespace}} and {{queue}}"
        )
    if "{queue}" not in placeholders:
        raise ValueError("the placeholder {queue} is missing")
    if text != "root" and not text.startswith("root."):
        raise ValueError("must be the full path of a queue: start with root.")
    return text


def _cohort_template(text: str) -> str:
    if "{namespace}" in text:
        raise ValueError("cohorts have no namespace: remove {namespace}")
    return _template(text)


def _below(text: str) -> str:
    if text != "root" and not text.startswith("root."):
        raise ValueError("must be the full path of a queue, such as root.kai")
    return text


LabelKey = Annotated[str, AfterValidator(_label_key)]
Template = Annotated[str, AfterValidator(_template)]
"""The path of a queue in the policy, with the placeholders {namespace} and {queue}."""
CohortTemplate = Annotated[str, AfterValidator(_cohort_template)]
"""The path of a queue in the policy, with the placeholder {queue}."""


class Scheduler(Section):
    """A scheduler whose queue names are checked."""

    mode: ModeSetting | None = None
    """The mode for this scheduler's queues, instead of admission.queues.mode."""


class YuniKornScheduler(Scheduler):
    """Apache YuniKorn. Useful only if its first placement rule is `provided`. Names below other
    schedulers' paths are refused.
    """

    placeholder_account: str = "system:serviceaccount:yunikorn:yunikorn-admin"
    """The account of YuniKorn's scheduler. The gang scheduling placeholders that it creates may
    name the queue of their application, which was checked when the application was started. If
    empty, placeholders are checked like other pods."""


class KueueScheduler(Scheduler):
    """Kueue, whose LocalQueues belong to a namespace."""

    localqueues: Template = "root.namespaces.{namespace}.{queue}"
    """The policy's queue for a LocalQueue."""
    clusterqueues: Template = "root.clusterqueues.{queue}"
    """The policy's queue for a ClusterQueue. Users who may submit to a ClusterQueue may create
    LocalQueues for it."""
    cohorts: CohortTemplate = "root.cohorts.{queue}"
    """The policy's queue for a Cohort. Users who administer it may put ClusterQueues and other
    Cohorts below the Cohort."""

    @model_validator(mode="after")
    def _different_paths(self) -> Self:
        for names in itertools.combinations(KUEUE_TEMPLATES, 2):
            upper, lower = sorted(names, key=lambda name: len(levels(getattr(self, name))))
            first, second = getattr(self, upper), getattr(self, lower)
            if not may_meet(first, second):
                continue
            path = (
                "the same path as" if len(levels(first)) == len(levels(second)) else "a path above"
            )
            raise ValueError(
                f"{upper} ({first}) can give a queue {path} one of {lower} ({second}), so that an"
                " ACL for the first would also grant access to the second: start each with a"
                f" different path, as in {KUEUE}: {_kueue_defaults()}, and move the queues below"
                " these paths in the policy"
            )
        for name in KUEUE_TEMPLATES:
            if is_ambiguous(getattr(self, name)):
                raise ValueError(
                    f"{name} can give two queues the same path, because a name may contain the text"
                    " between the placeholders: put a dot or an underscore between them"
                )
        return self


def _kueue_defaults() -> str:
    """Return the default templates as settings; their paths never overlap."""
    fields = KueueScheduler.model_fields
    templates = (f"{name}: {json.dumps(fields[name].default)}" for name in KUEUE_TEMPLATES)
    return f"{{{', '.join(templates)}}}"


class FlatScheduler(Scheduler):
    """A scheduler whose queue names are flat: each is the last part of one path."""

    below: Annotated[str, AfterValidator(_below)] = "root"
    """The path in the policy below which this scheduler's names are looked up. If other schedulers
    are listed, each needs a different path, such as root.kai."""


class KaiScheduler(FlatScheduler):
    """KAI-Scheduler, whose queue names are flat: each is the last part of one path."""

    label: LabelKey = "kai.scheduler/queue"
    """The key of the label, as configured in the scheduler."""
    node_pool_label: LabelKey = "kai.scheduler/node-pool"
    """The key of the label for node pools, as configured in the scheduler."""
    project_label: bool = True
    """Whether the `project` label is checked. KAI reads it as a queue's name in pods and in any
    object that owns pods. If the label has another meaning in the cluster, the check would refuse
    ordinary objects. Without the check, the label can choose any queue."""


class CustomPlace(Scheduler):
    """A custom place where objects name a queue by its full path: a label or annotation at any
    depth of an object, or a field of one kind.
    """

    label: LabelKey | None = None
    """The key of a label or annotation."""
    kind: Annotated[str, AfterValidator(_kind), _like(_KIND)] | None = None
    """With `field`: the kind, as group/Kind, such as batch.example.com/TrainingRun."""
    field: Annotated[str, AfterValidator(_field), _like(_FIELD)] | None = None
    """With `kind`: the path of the field, such as spec.scheduling.queue."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.kind is None) != (self.field is None):
            raise ValueError("kind and field belong together: set both")
        if (self.label is None) == (self.kind is None):
            raise ValueError("set either label, or kind and field")
        return self


class Schedulers(Section):
    """The schedulers whose queue names are checked. Their places are built in."""

    yunikorn: YuniKornScheduler | None = None
    kueue: KueueScheduler | None = None
    volcano: FlatScheduler | None = None
    """Volcano. Its queue names are flat: each is the last part of one path."""
    kai: KaiScheduler | None = None
    koordinator: FlatScheduler | None = None
    """Koordinator. Its quota names are flat: each is the last part of one path."""
    slurm_bridge: Annotated[FlatScheduler | None, Field(alias="slurm-bridge")] = None
    """slurm-bridge. Its partition names are flat: each is the last part of one path."""
    places: tuple[CustomPlace, ...] = ()
    """Additional places."""

    @property
    def flat(self) -> Mapping[str, FlatScheduler]:
        """The listed schedulers whose queue names are flat, by their names in the settings, except
        those whose mode is `off`.
        """
        fields = ((name, getattr(self, field)) for name, field in FLAT.items())
        return {
            name: scheduler
            for name, scheduler in fields
            if scheduler is not None and scheduler.mode is not Mode.OFF
        }

    @property
    def subtrees(self) -> Sequence[Subtree]:
        """The paths above the queues of Kueue and of each scheduler whose queue names are flat,
        except schedulers whose mode is `off`. All other queues are YuniKorn's.
        """
        found = []
        if self.kueue is not None and self.kueue.mode is not Mode.OFF:
            templates = (getattr(self.kueue, name) for name in KUEUE_TEMPLATES)
            found += [Subtree(KUEUE, prefix(template)) for template in templates]
        return [*found, *(Subtree(name, each.below) for name, each in self.flat.items())]

    def overlap(self) -> str:
        """Return which schedulers share queues of the policy, and the remedy; empty if none do."""
        subtrees = self.subtrees
        pairs = [*itertools.combinations(subtrees, 2)]
        if self.yunikorn is not None and self.yunikorn.mode is not Mode.OFF:
            whole = Subtree(YUNIKORN, ROOT)
            pairs += [(whole, each) for each in subtrees if each.path.lower() == ROOT]
        for first, second in pairs:
            if first.scheduler != second.scheduler and overlaps(first.path, second.path):
                return (
                    f"{first.scheduler} and {second.scheduler} share queues of the policy"
                    f" ({first.path} and {second.path}), so that an ACL for a queue of one could"
                    f" grant access to a queue of the other: set {self._separate()}, and move each"
                    " scheduler's queues below its path in the policy"
                )
        return ""

    def unfit_for_rbac(self) -> str:
        """Return what does not work with RBAC as the policy, and the remedy; an empty string if
        everything does.
        """
        for name, scheduler in ((YUNIKORN, self.yunikorn), ("slurm-bridge", self.slurm_bridge)):
            if scheduler is not None and scheduler.mode is not Mode.OFF:
                return (
                    f"Kubernetes' RBAC cannot grant queues of {name}: use a policy file for {name}"
                )
        flat = {f"{name}.below": each for name, each in self.flat.items()}
        kueue = {f"{KUEUE}.{name}": self.kueue for name in KUEUE_TEMPLATES if self.kueue}
        for key, each in (*flat.items(), *kueue.items()):
            if key.partition(".")[2] in each.model_fields_set:
                return f"Kubernetes' RBAC determines the queue paths: remove {key}"
        return ""

    def _separate(self) -> str:
        """Return settings in which no schedulers share queues."""
        chosen = [f"{name}: {{below: {ROOT}.{name}}}" for name in self.flat]
        own = [each.path for each in self.subtrees if each.scheduler == KUEUE]
        taken = [f"{ROOT}.{name}" for name in self.flat]
        if any(path.lower() == ROOT or any(overlaps(path, each) for each in taken) for path in own):
            chosen.insert(0, f"{KUEUE}: {_kueue_defaults()}")
        return ", ".join(chosen)
