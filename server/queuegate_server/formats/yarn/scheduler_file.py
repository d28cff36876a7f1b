"""The queues and their unparsed ACLs in a scheduler's file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from queuegate.policy.names import parent_path
from queuegate_server.formats.diagnostics import Positioned
from queuegate_server.formats.yarn.templates import Templates
from queuegate_server.formats.yarn.variables import LocatedText


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A queue as configured in a scheduler's file. Unset ACLs are None."""

    path: str
    position: Positioned
    submit: LocatedText | None = None
    admin: LocatedText | None = None
    is_parent: bool = False
    """Whether the queue is marked as a parent, even if it has no children yet."""


@dataclass(slots=True)
class SchedulerFile:
    """The contents of a scheduler's file. Each queue follows its parent."""

    queues: list[QueueEntry] = field(default_factory=list)
    checks_submission_always: bool = False
    """Whether submission is checked even if ACLs are disabled, as by the fair scheduler."""
    has_short_names: bool = False
    """Whether a name without dots refers to the queue with that name anywhere in the tree."""
    templates: Templates = field(default_factory=Templates)
    properties: Mapping[str, LocatedText] = field(default_factory=dict)
    """The properties in a capacity-scheduler.xml and the yarn-site.xml that it overrides."""
    lacks_properties: bool = False
    """Whether an error may hide properties, so that an unset property may be set."""
    lacks_queues: bool = False
    """Whether an error may hide queues, so that a missing queue may exist."""

    def parents(self) -> set[str]:
        """Return the paths of queues that have children or are marked as parents."""
        marked = {queue.path for queue in self.queues if queue.is_parent}
        return marked.union(parent_path(queue.path) for queue in self.queues)
