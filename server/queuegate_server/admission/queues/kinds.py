"""The kinds of objects that are pods or from which controllers create pods, as listed in
kinds.toml.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.model import FETCHED, LOCAL_QUEUES, PATCH, TEXT
from queuegate_server.files.toml import read_toml

Kind = tuple[str, str]
"""An API group, empty for the core group, and a kind."""
Steps = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda text: text.split(".") if isinstance(text, str) else text),
]
"""The path from an object to a field: dotted names, or a list of names."""
CORE: Final = "core"
"""The name of the core group in the files; its real name is empty."""


class KnownField(BaseModel):
    """A field in which a scheduler reads the name of a queue. Lists along the path are searched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scheduler: str
    path: Steps
    access: Access = Access.SUBMIT
    template: str = LOCAL_QUEUES
    """See `QueueName`."""
    scheduler_field: Steps = ()
    """The field that names the scheduler, if the object has one. If set, it decides which scheduler
    reads the queue."""
    is_override: bool = False
    """Whether the object takes its queue from another object if it lacks the field."""


class KnownKind(BaseModel):
    """What queuegate knows about a kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: str
    """The plural name of its resource in the API."""
    role: Literal["pod", "workload", "template", "other"]
    """`pod`: a built-in kind that is a pod or contains a pod template. `workload`: a custom kind
    from whose templates operators create pods. `template`: a custom kind with templates, labels or
    annotations that reach pods only through a reference from another object, by being copied into
    another object, or by selecting the pods. `other`: a kind without pod templates that has
    relevant fields or labels.
    """
    labels_become_pods: bool = False
    """Whether the object's own labels are, or become, pod labels."""
    labels_go_to: Literal["", "referrers", "any pods"] = ""
    """Which other objects' pods are created from the object's templates or get its labels: the pods
    of objects that refer to it (`referrers`), or any pods that it selects (`any pods`), whose node
    pools KAI may then combine with its project. Empty if there are no such pods.
    """
    refers_by: frozenset[str] | Literal["always"] | None = None
    """The members that refer to another object's template; `always` if an object may use such a
    template even without these members; None if it never uses one.
    """
    template_may_change_project: bool = False
    """Whether the template that the object refers to may change the object's project, as in a
    Workflow.
    """
    takes_built_in_templates: bool = False
    """Whether the object uses templates of built-in kinds, in which a node pool needs no queue
    label.
    """
    contains_objects_at: Steps = ()
    """The paths to the contained objects that an operator creates; lists do not count as levels. A
    map elsewhere is not treated as an object, even if it has a `kind` member, because in kinds that
    keep unknown members, a pod template may have one.
    """
    fields: tuple[KnownField, ...] = ()
    fetched: tuple[Steps, ...] = ()
    """Fields with the source of a template that the operator fetches later."""
    text: tuple[Steps, ...] = ()
    """Fields with a template that is searched only if it is not written as text."""
    patches: tuple[Steps, ...] = ()
    """Fields with JSON patches that the operator applies later."""


def in_groups(table: Mapping[str, Any]) -> list[Kind]:
    """Return the kinds that a table lists under the names of their API groups."""
    return [
        ("" if group == CORE else group, kind) for group, kinds in table.items() for kind in kinds
    ]


def _read() -> dict[Kind, KnownKind]:
    content = read_toml(__file__, "kinds.toml")
    table = TypeAdapter(dict[str, dict[str, KnownKind]]).validate_python(content)
    known = (kind for kinds in table.values() for kind in kinds.values())
    return dict(zip(in_groups(table), known, strict=True))


KNOWN_KINDS: Final[Mapping[Kind, KnownKind]] = _read()
"""All kinds that queuegate knows, built-in kinds first."""


def _of_role(role: str) -> tuple[Kind, ...]:
    return tuple(kind for kind, known in KNOWN_KINDS.items() if known.role == role)


NAMESPACE: Final[Kind] = ("", "Namespace")
POD: Final[Kind] = ("", "Pod")
RESOURCE_CLAIM_TEMPLATE: Final[Kind] = ("resource.k8s.io", "ResourceClaimTemplate")
"""A kind whose template is not for pods: a controller copies its labels to ResourceClaims."""
POD_KINDS: Final[Sequence[Kind]] = _of_role("pod")
"""The built-in kinds that are pods or contain pod templates."""
WORKLOAD_KINDS: Final[Sequence[Kind]] = _of_role("workload")
"""The custom kinds from whose templates operators create pods."""
TEMPLATE_KINDS: Final[Sequence[Kind]] = _of_role("template")
"""The custom kinds with templates, labels or annotations for the pods of other objects."""
RESOURCES: Final[Mapping[Kind, str]] = {kind: each.resource for kind, each in KNOWN_KINDS.items()}
"""The plural name of each kind's resource."""
METADATA_OF_POD_KINDS: Final[frozenset[Kind]] = frozenset(
    {("", "Binding"), *(kind for kind, each in KNOWN_KINDS.items() if each.labels_become_pods)}
)
"""The kinds whose own labels are, or become, pod labels. Not all operators copy annotations."""


class HiddenPlace(NamedTuple):
    """A field with a template that cannot be searched."""

    path: Sequence[str]
    """The members from the object to the field."""
    stands_for: str
    """The placeholder for the names in the template: PATCH for a JSON patch, TEXT if the names are
    hidden only because the template is text, otherwise FETCHED.
    """


HIDDEN: Final[Mapping[Kind, Sequence[HiddenPlace]]] = {
    kind: [
        HiddenPlace(path, stands_for)
        for paths, stands_for in ((each.fetched, FETCHED), (each.text, TEXT), (each.patches, PATCH))
        for path in paths
    ]
    for kind, each in KNOWN_KINDS.items()
    if each.fetched or each.text or each.patches
}
"""The templates that operators fetch or parse later, in kinds that are searched."""
