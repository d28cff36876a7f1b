"""Questions about applications, and how they go over the wire. None needs gRPC."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Literal, TypeAlias

from queuegate import _validation
from queuegate._types import Decision, ExplainedGroups


class Action(StrEnum):
    """What the user wants to do with the application."""

    VIEW = auto()
    VIEW_LOGS = auto()
    MODIFY = auto()
    """Change or kill it."""
    MOVE = auto()
    """Move it to another queue; not for Spark's own rules."""
    ADMIN = auto()
    """Act for other users; only for Spark's own rules."""


ActionName: TypeAlias = Action | Literal["view", "view_logs", "modify", "move", "admin"]
"""An action, or its name."""


@dataclass(frozen=True, slots=True)
class Application:
    """An application of YARN."""

    queue: str
    """The path of the queue that it runs in."""
    owner: str
    view_acl: str = ""
    """As it was submitted; empty: nobody."""
    modify_acl: str = ""

    def __post_init__(self) -> None:
        _validation.text("queue", self.queue)
        _validation.text("owner", self.owner)
        _validation.text("view_acl", self.view_acl, required=False)
        _validation.text("modify_acl", self.modify_acl, required=False)


@dataclass(frozen=True, slots=True)
class SparkApplication:
    """An application of Spark, decided by Spark's own rules."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Such as `spark.ui.view.acls`; they come before the server's `spark_defaults`."""
    spark_user: str = ""
    process_user: str = ""

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

    Raises TypeError or ValueError, naming the argument, if it cannot be right.
    """

    user: str
    action: ActionName
    application: Application | SparkApplication
    partition: str = "default"
    groups: Iterable[str] = ()
    """Used as they are if there are any; otherwise the server resolves them."""
    target_queue: str = ""
    """For a move: the path of the queue to move to."""
    real_user: str = ""
    """The service that acts for the user, for YARN's ACLs that list `~name`."""

    def __post_init__(self) -> None:
        _validation.text("user", self.user)
        _validation.text("partition", self.partition, required=False)
        _validation.text("target_queue", self.target_queue, required=False)
        _validation.text("real_user", self.real_user, required=False)
        object.__setattr__(self, "action", _validation.choice("action", self.action, Action))
        object.__setattr__(self, "groups", _validation.texts("groups", self.groups))
        if not isinstance(self.application, Application | SparkApplication):
            kind = type(self.application).__name__
            raise TypeError(f"application must be an Application, not {kind}")


class ApplicationList(StrEnum):
    """Which list of names was looked at."""

    UNSPECIFIED = auto()
    """A list that this release of the client does not know."""
    OWNER = auto()
    VIEW = auto()
    MODIFY = auto()
    QUEUE_SUBMIT = auto()
    QUEUE_ADMIN = auto()
    CLUSTER_ADMIN = auto()
    APPLICATION_ADMIN = auto()
    """Spark's administrators of all applications."""


@dataclass(frozen=True, slots=True)
class ApplicationStep:
    """One list that was looked at."""

    list: ApplicationList
    queue: str
    """The path of the queue, if it is the list of one."""
    acl_text: str


@dataclass(frozen=True, slots=True)
class ApplicationExplanation:
    """A decision about an application, and the lists behind it. True in a condition only if
    access is granted.
    """

    decision: Decision
    steps: tuple[ApplicationStep, ...]
    """In order; where access is granted, the last one granted it."""
    groups: ExplainedGroups

    def __bool__(self) -> bool:
        return self.decision.allowed
