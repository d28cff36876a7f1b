"""The types that the queue checks share. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from queuegate.policy.decision import Access, Decision
from queuegate_server.settings.queue_schedulers import Mode

NOT_TEXT: Final = "{…}"
"""A placeholder for a map or a list where a name belongs. No queue has this name."""
EXPRESSION: Final = "{expression}"
"""A placeholder for a name that an expression will produce. No queue has this name."""
FETCHED: Final = "{fetched}"
"""A placeholder for all names in a template that is read from elsewhere."""
UNREADABLE: Final = "{unreadable}"
"""A placeholder for all names in labels that cannot be parsed."""
TEXT: Final = "{text}"
"""A placeholder for all names in an object that is written as text."""
PATCH: Final = "{patch}"
"""A placeholder for all names in labels and annotations that a JSON patch may set."""
OPTIONS: Final = "{options}"
"""A placeholder for all names in a command's options."""
UNKNOWN_PROJECT: Final = "{project}"
"""A placeholder for the name that KAI builds from a node pool and another object's project."""
UNKNOWN_REFERRER: Final = "{referrer}"
"""A placeholder for the name that KAI builds from a node pool and the project of an object that
refers to the object with the node pool.
"""
UNKNOWN_TEMPLATE: Final = "{template}"
"""A placeholder for the name that KAI builds from a node pool and the project of a template that
the object refers to.
"""
UNKNOWN_POOL: Final = "{pool}"
"""A placeholder for the name that KAI builds from a project and the node pool of another object."""
UNKNOWN_NAMES: Final[Mapping[str, str]] = {
    UNKNOWN_PROJECT: "KAI may join the node pool with the project of the pod's owner, so the queue"
    " cannot be checked: in a pod, or in the template of a built-in kind, add the queue label"
    " beside it; elsewhere, remove the node pool or the object's owner; in a pod without an owner,"
    " the label project is enough",
    UNKNOWN_REFERRER: "other objects use this template or these labels, and KAI may join the node"
    " pool with their project, so the queue cannot be checked: add the queue label beside the node"
    " pool",
    UNKNOWN_TEMPLATE: "the object uses another object's template, and KAI may join the node pool"
    " with the project there, so the queue cannot be checked: add the queue label beside the node"
    " pool, or to the object's own labels",
    UNKNOWN_POOL: "other objects' pods get this project, and KAI may join it with their node pool,"
    " so the queue cannot be checked: add the queue label beside the project",
    EXPRESSION: "the key or the value is an expression, so the queue cannot be checked: write"
    " both as plain text",
    FETCHED: "the template is read from elsewhere when the pods are created, so its queues cannot"
    " be checked: put the pod template, labels and annotations into the object",
    UNREADABLE: "the labels or annotations cannot be read, so the queues among them cannot be"
    " checked: write key:value,key:value, with at most 4096 characters and 100 entries, or one"
    " property each",
    TEXT: "the object is written as text, so its queues cannot be checked: write it as a map, or"
    " create the object yourself",
    PATCH: "the patch may change labels or annotations, so the queues among them cannot be checked:"
    " remove metadata, from and backslashes from it, and change the created object yourself",
    OPTIONS: "spark-submit would read the text as an option, so the queues in it cannot be checked:"
    " put the application's path in mainApplicationFile, and options in sparkConf",
}
"""Why the names behind each placeholder cannot be checked, and the remedy."""
LOCAL_QUEUES: Final = "localqueues"


class QueueName(NamedTuple):
    """A queue name in an object."""

    scheduler: str
    """The scheduler that reads the name, as `admission.queues.schedulers` spells it."""
    name: str
    where: str
    """The position, such as `metadata.labels["kueue.x-k8s.io/queue-name"]` or `spec.queue`."""
    access: Access
    """The access that the requester needs."""
    template: str = LOCAL_QUEUES
    """For Kueue: the kind of queue, named like the setting that contains its path template."""
    is_read: bool = True
    """Whether the scheduler reads the name. A name that it ignores is also checked, but an object
    with only such names is treated as not naming a queue.
    """
    scheduler_field: str = ""
    """The position of a missing field that would select the scheduler that reads the name; empty if
    there is none."""
    text: str = ""
    """The placeholder for a name that will only be known later; otherwise empty."""
    is_joined: bool = False
    """Whether the scheduler joins the value with a label from another place."""


class RequiredCheck(NamedTuple):
    """A check that must succeed before the object is accepted."""

    scheduler: str
    name: str
    where: str
    path: str
    """The queue's path in the policy."""
    access: Access
    mode: Mode
    scheduler_field: str = ""
    """See `QueueName`."""
    template: str = LOCAL_QUEUES
    """See `QueueName`."""
    is_one_of_several: bool = False
    """Whether the same place names different queues for other schedulers."""
    is_joined: bool = False
    """Whether the scheduler may join the value with a label from another place, in which case a
    user would not write a queue name there.
    """


Outcome = tuple[RequiredCheck, Decision | str]
"""A check, with its decision or the reason for an error."""


class Obstacle(NamedTuple):
    """A reason, other than an ACL, to refuse the object."""

    scheduler: str
    where: str
    message: str
    mode: Mode


class Usable(NamedTuple):
    """Queues that a user may use instead of a denied queue."""

    names: Sequence[str]
    """Their names, as the user would write them in that place."""
    is_complete: bool
    """Whether `names` contains all of them."""


NO_QUEUES: Final = Usable((), is_complete=True)


class Requirements(NamedTuple):
    """All that must hold before an object is accepted. Both members are empty if the object does
    not name a queue.
    """

    checks: tuple[RequiredCheck, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueReview:
    """The request in an AdmissionReview, with complete objects."""

    uid: str
    group: str
    """The API group of the object's kind; empty for the core group."""
    kind: str
    subresource: str
    operation: str
    namespace: str
    """The object's namespace; for a Namespace, its own name; empty outside namespaces."""
    name: str
    """The object's name; empty if the API server generates it."""
    user: str
    groups: tuple[str, ...]
    new: Mapping[str, Any] | None
    old: Mapping[str, Any] | None
    fault: str = ""
    """Why the new object cannot be searched; empty if it can. If not, both objects are abridged:
    they can only be compared."""
    dry_run: bool = False
    """Whether this is a dry run, so the API server will not store the object. The answer is the
    same."""
