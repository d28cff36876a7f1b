"""Questions about access to applications, and explanations. None needs gRPC."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Literal, TypeAlias

from queuegate import _validation
from queuegate._types import Decision, ExplainedGroups
from queuegate.policy.applications import Action

ActionName: TypeAlias = Action | Literal["view", "view_logs", "modify", "move", "admin"]
"""An action, or its value."""


@dataclass(frozen=True, slots=True)
class Application:
    """A YARN application."""

    queue: str
    """The path of the queue in which it runs."""
    owner: str
    """The user who started it."""
    view_acl: str = ""
    """The ACL as submitted. If empty, it lists nobody."""
    modify_acl: str = ""
    """The ACL as submitted. If empty, it lists nobody."""

    def __post_init__(self) -> None:
        _validation.text("queue", self.queue)
        _validation.text("owner", self.owner)
        _validation.text("view_acl", self.view_acl, required=False)
        _validation.text("modify_acl", self.modify_acl, required=False)


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """A Spark application. Spark's own rules decide who may access it."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties such as `spark.ui.view.acls`, which override the server's `spark_defaults`."""
    spark_user: str = ""
    """The user for whom it runs."""
    process_user: str = ""
    """The owner of its process."""

    def __post_init__(self) -> None:
        if not isinstance(self.properties, Mapping):
            kind = type(self.properties).__name__
            raise TypeError(f"properties must be a mapping of str to str, not {kind}")
        for name, value in self.properties.items():
            _validation.text("properties", name)
            _validation.text(f"properties[{name}]", value, required=False)
        _validation.text("spark_user", self.spark_user, required=False)
        _validation.text("process_user", self.process_user, required=False)


@dataclass(frozen=True, slots=True)
class ApplicationCheck:
    """A question: may this user do this with this application?

    Raises:
        InvalidArgument: An argument is invalid.
        TypeError: An argument has the wrong type.

    Example:
        >>> application = queuegate.Application("root.default", "john", view_acl="jane")
        >>> question = queuegate.ApplicationCheck("jane", "view_logs", application)
    """

    user: str
    """The name of the user."""
    action: ActionName
    """The kind of access."""
    application: Application | SparkApplication
    """The application, of YARN or of Spark."""
    partition: str = "default"
    """The partition whose rules apply."""
    groups: Iterable[str] | None = None
    """The user's groups, used as given; empty if there are none. None: the server resolves them."""
    target_queue: str = ""
    """The path of the queue to which the application is to be moved."""
    real_user: str = ""
    """The service that acts for the user, if any: YARN's ACLs may list it as `~name`."""

    def __post_init__(self) -> None:
        _validation.text("user", self.user)
        _validation.text("partition", self.partition, required=False)
        _validation.text("target_queue", self.target_queue, required=False)
        _validation.text("real_user", self.real_user, required=False)
        object.__setattr__(self, "action", _validation.choice("action", self.action, Action))
        object.__setattr__(self, "groups", _validation.optional_texts("groups", self.groups))
        if not isinstance(self.application, Application | SparkApplication):
            kind = type(self.application).__name__
            raise TypeError(f"application must be an Application or SparkApplication, not {kind}")


class ApplicationList(StrEnum):
    """The source of an evaluated list of names."""

    UNSPECIFIED = auto()
    """A list that this version of the client does not know."""
    OWNER = auto()
    """The user who started it."""
    VIEW = auto()
    """The view ACL of the application."""
    MODIFY = auto()
    """The modify ACL of the application."""
    QUEUE_SUBMIT = auto()
    """The submit ACL of a queue."""
    QUEUE_ADMIN = auto()
    """The admin ACL of a queue."""
    CLUSTER_ADMIN = auto()
    """The administrators of the cluster."""
    APPLICATION_ADMIN = auto()
    """Spark's administrators of all applications."""


@dataclass(frozen=True, slots=True)
class ApplicationStep:
    """One evaluated list of names."""

    list: ApplicationList
    """The source of the list."""
    queue: str
    """The path of the queue, if the list is a queue's ACL."""
    acl_text: str
    """The list as configured."""
    granted: bool = False
    """Whether the list granted access: for a move, to the application or to the target."""


@dataclass(frozen=True, slots=True)
class ApplicationExplanation:
    """A decision about an application and its evaluation. Truthy only if access is granted."""

    decision: Decision
    """The decision."""
    steps: tuple[ApplicationStep, ...]
    """The evaluated lists, in order. If access is granted, the last one granted it."""
    groups: ExplainedGroups
    """Where the groups of the user came from."""

    def __bool__(self) -> bool:
        return self.decision.allowed
