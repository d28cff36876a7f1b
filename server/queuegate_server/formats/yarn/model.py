"""The model of the files of YARN's schedulers, before a partition is built from them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Positioned


def _documented(_partition: str) -> Semantics:
    return Semantics.DOCUMENTED


@dataclass(frozen=True, slots=True)
class YarnOptions:
    """What the settings add to the scheduler's own file."""

    partition: str = DEFAULT_PARTITION
    """The name under which the queues are served."""
    semantics: Callable[[str], Semantics] = _documented
    """The semantics of ACLs, by the name of the partition."""
    site: tuple[bytes, str] | None = None
    """The content and the name of `yarn-site.xml`. Without it ACLs are enforced, and
    nobody administers the cluster."""
    daemon_user: str = ""
    """The user that the ResourceManager runs as, always an administrator."""


class Text(NamedTuple):
    """A value and its position."""

    line: int
    column: int
    text: str


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A queue of a file. An ACL is None where the file does not set it."""

    path: str
    position: Positioned
    submit: Text | None = None
    admin: Text | None = None


@dataclass(slots=True)
class SchedulerFile:
    """The queues of a file, the root first and each queue after its parent."""

    submit_name: str
    """What the file calls the submit ACL."""
    admin_name: str
    checks_submission_always: bool
    queues: list[QueueEntry] = field(default_factory=list)
    has_short_names: bool = False
    """True if a name without dots refers to the queue of that name, wherever it is."""


class Site(NamedTuple):
    """What yarn-site.xml sets."""

    acls_enabled: bool
    admins: str
    admins_position: Text | None = None
    """The value of `yarn.admin.acl`, if it is set."""
