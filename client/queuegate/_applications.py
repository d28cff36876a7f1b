"""Types for application access checks and their explanations. Does not import gRPC."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Literal, TypeAlias

from queuegate import _validation
from queuegate._types import Decision, ExplainedGroups
from queuegate.policy.applications import Action

ActionName: TypeAlias = Action | Literal["view", "view_logs", "modify", "move", "admin"]
"""An action, as an enum member or its value."""


@dataclass(frozen=True, slots=True)
class Application:
    """A YARN application."""

    queue: str
    """The path of the application's queue."""
    owner: str
    """The user who started the application."""
    view_acl: str = ""
    """The view ACL as submitted. An empty ACL grants access to nobody."""
    modify_acl: str = ""
    """The modify ACL as submitted. An empty ACL grants access to nobody."""

    def __post_init__(self) -> None:
        _validation.text("queue", self.queue)
        _validation.text("owner", self.owner)
        _validation.text("view_acl", self.view_acl, required=False)
        _validation.text("modify_acl", self.modify_acl, required=False)


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """A Spark application, subject to Spark's own access rules."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties such as `spark.ui.view.acls`, which override the server's `spark_defaults`."""
    spark_user: str = ""
    """The user on whose behalf the application runs."""
    process_user: str = ""
    """The user who owns the application's process."""

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
    """A check for `check_applications`: whether a user may take an action on an application.

    Raises:
        InvalidArgument: An argument is invalid.
        TypeError: An argument has the wrong type.

    Example:
        >>> application = queuegate.Application("root.default", "john", view_acl="jane")
        >>> check = queuegate.ApplicationCheck("jane", "view_logs", application)
    """

    user: str
    """The user who takes the action."""
    action: ActionName
    """What the user does with the application."""
    application: Application | SparkApplication
    """The application. Its type determines whether YARN's or Spark's rules apply."""
    partition: str = "default"
    """The partition whose rules apply."""
    groups: Iterable[str] | None = None
    """The user's groups; an empty list means no groups. If None, the server resolves them."""
    target_queue: str = ""
    """For a move, the target queue's path."""
    real_user: str = ""
    """The service acting for the user, if any. YARN's ACLs may list it as `~name`."""

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
    """The source of the names evaluated in an application access check."""

    UNSPECIFIED = auto()
    """A source unknown to this client, because the server is newer."""
    OWNER = auto()
    """The user who started the application."""
    VIEW = auto()
    """The application's view ACL."""
    MODIFY = auto()
    """The application's modify ACL."""
    QUEUE_SUBMIT = auto()
    """A queue's submit ACL."""
    QUEUE_ADMIN = auto()
    """A queue's admin ACL."""
    CLUSTER_ADMIN = auto()
    """The cluster's administrators."""
    APPLICATION_ADMIN = auto()
    """The administrators of Spark applications (`spark.admin.acls`, `spark.admin.acls.groups`)."""


@dataclass(frozen=True, slots=True)
class ApplicationStep:
    """A list of names evaluated in an application access check."""

    list: ApplicationList
    """The list's source."""
    queue: str
    """For a queue's ACL, the queue path."""
    acl_text: str
    """The list's text."""
    granted: bool = False
    """Whether the list granted access. For a move, one list grants access to the application and
    another to the target queue.
    """


@dataclass(frozen=True, slots=True)
class ApplicationExplanation:
    """An application access decision, the evaluated lists and the user's groups. Truthy only if
    access is granted.
    """

    decision: Decision
    """Whether access is granted, and why."""
    steps: tuple[ApplicationStep, ...]
    """The evaluated lists, in order. If access is granted, the last list granted it."""
    groups: ExplainedGroups
    """The user's groups, with their origin."""

    def __bool__(self) -> bool:
        return self.decision.allowed
