"""What the files of YARN's schedulers state, before it becomes a partition."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Positioned


def _documented(_partition: str) -> Semantics:
    return Semantics.DOCUMENTED


@dataclass(frozen=True, slots=True)
class YarnOptions:
    """What is said beside the scheduler's own file."""

    partition: str = DEFAULT_PARTITION
    """The name under which the queues are served."""
    semantics: Callable[[str], Semantics] = _documented
    """Whose rules hold, by the name of the partition."""
    site: tuple[bytes, str] | None = None
    """The content and the name of `yarn-site.xml`. Without it ACLs are enforced, and
    nobody administers the cluster."""
    daemon_user: str = ""
    """The user that the ResourceManager runs as, always an administrator."""


DEFAULT_OPTIONS: Final = YarnOptions()


class Text(NamedTuple):
    """A value and its position."""

    line: int
    column: int
    text: str


@dataclass(slots=True, eq=False)
class StatedQueue:
    """A queue as a file states it. An ACL is None where the file says nothing of it."""

    path: str
    position: Positioned
    submit: Text | None = None
    admin: Text | None = None


@dataclass(slots=True)
class Stated:
    """The queues of a file, each after its parent and the root first."""

    submit_name: str
    """What the file calls the submit ACL."""
    admin_name: str
    checks_submission_always: bool
    queues: list[StatedQueue] = field(default_factory=list)
    has_short_names: bool = False
    """True if a name without dots is any queue of that name."""


class Site(NamedTuple):
    """What yarn-site.xml says."""

    acls_enabled: bool
    admins: str
    position: Text | None = None
    """Where `yarn.admin.acl` is, if it is set."""
