"""Results about users, the policy and the server. All are immutable."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto
from typing import Final

_MAX_SEQUENCE: Final = 2**64 - 1


class ResolveOutcome(StrEnum):
    """The outcome of a resolution."""

    UNSPECIFIED = auto()
    """An outcome that this version of the client does not know."""
    RESOLVED = auto()
    """The groups are known."""
    NOT_FOUND = auto()
    """The resolver is certain that the user does not exist."""
    UNAVAILABLE = auto()
    """The resolver was unavailable, or its answer was incomplete."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The groups of a user. Truthy only if they are known."""

    user: str
    """The name of the user."""
    groups: tuple[str, ...]
    """The primary group first; empty unless `outcome` is RESOLVED."""
    outcome: ResolveOutcome
    """Whether the groups are known."""
    resolver: str
    """The name of the resolver."""
    cached: bool
    """Whether the groups came from the cache."""
    stale: bool
    """Whether the groups have expired, and the resolver was unavailable or has not answered yet."""
    resolved_at: datetime | None
    """When the groups were resolved, in UTC like all times here."""
    expires_at: datetime | None
    """When the cached groups expire."""
    detail: str
    """Why the user is unknown or the resolver unavailable, for people."""

    def __bool__(self) -> bool:
        return self.outcome is ResolveOutcome.RESOLVED


class Severity(StrEnum):
    """The severity of a diagnostic."""

    UNSPECIFIED = auto()
    """A severity that this version of the client does not know."""
    ERROR = auto()
    """The configuration cannot be served."""
    WARNING = auto()
    """The configuration can be served, but probably not as intended."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning about a configuration. Lines and columns start at 1; 0: no location."""

    severity: Severity
    """Whether the diagnostic keeps the configuration from being served."""
    line: int
    """The line in the file, from 1."""
    column: int
    """The column in the line, from 1."""
    queue: str
    """The queue concerned, if any."""
    message: str
    """A one-sentence description of the error."""
    remedy: str
    """The remedy, in one sentence."""
    file: str = ""
    """The name of the file; empty if the text was sent."""


@dataclass(frozen=True, slots=True)
class PolicyQueue:
    """A queue and its ACLs as configured. A missing ACL is empty."""

    path: str
    """The full path."""
    submit_acl: str
    """Who may submit to the queue."""
    admin_acl: str
    """Who may administer the queue, and submit to it."""
    submit_acl_dropped_names: tuple[str, ...]
    """Names in the submit ACL that the ACL grammar does not accept. They never match."""
    admin_acl_dropped_names: tuple[str, ...]
    """Such names in the admin ACL."""
    created_levels: int = 0
    """The number of levels of queues that YARN creates below this queue when they are first
    used; 0 if it creates none."""


@dataclass(frozen=True, slots=True)
class QueueTemplate:
    """The ACLs of queues that YARN's capacity scheduler creates when they are first used."""

    path: str
    """The path of the queues below which the template applies; `*` in its last levels stands for
    any name."""
    kind: str
    """Which new queues the template applies to, in the terms of Hadoop's configuration."""
    submit_acl: str | None
    """The text of the submit ACL; None if the template sets none."""
    admin_acl: str | None
    """The text of the admin ACL; None if the template sets none."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy of a partition that the server is serving."""

    source: str
    """Where the policy was read from, for display."""
    revision: int
    """Starts at 1 when the server starts, and grows by 1 with each reload that changed the
    policy."""
    checksum: str
    """The SHA-256 of the configuration in upper-case hexadecimal; for several files, the
    SHA-256 of their checksums."""
    loaded_at: datetime | None
    """When the policy was loaded."""
    queues: tuple[PolicyQueue, ...]
    """Each queue after its parent and before its next sibling."""
    resolver: str
    """The name of the resolver of groups."""
    partitions: tuple[str, ...]
    """The names of all partitions."""
    diagnostics: tuple[Diagnostic, ...]
    """The warnings about this revision."""
    reload_failed_at: datetime | None
    """The time of the last reload, if it failed."""
    reload_diagnostics: tuple[Diagnostic, ...]
    """Why the last reload failed; empty if it succeeded."""
    templates: tuple[QueueTemplate, ...] = ()
    """The ACLs of queues that YARN creates when they are first used."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A change in a server's state: a check with this `at_least` takes it into account.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The number is out of range.
    """

    epoch: bytes
    """Identifies the server process that made the change."""
    sequence: int
    """The number of the change."""

    def __post_init__(self) -> None:
        if not isinstance(self.epoch, bytes):
            raise TypeError(f"epoch must be bytes, not {type(self.epoch).__name__}")
        if isinstance(self.sequence, bool) or not isinstance(self.sequence, int):
            raise TypeError(f"sequence must be an int, not {type(self.sequence).__name__}")
        if not 0 <= self.sequence <= _MAX_SEQUENCE:
            raise ValueError(f"sequence must be from 0 to 2**64 - 1, not {self.sequence}")


@dataclass(frozen=True, slots=True)
class InvalidationResult:
    """The result of an invalidation."""

    dropped: int
    """How many cache entries were dropped."""
    cursor: Cursor | None = None
    """The change; None from a server that is too old."""
    waited_out: tuple[str, ...] = ()
    """With `wait`: the gates and replicas that did not confirm, but whose leases have ended."""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The result of a reload. Truthy only if it succeeded."""

    succeeded: bool
    """Whether the configuration is being served."""
    revision: int
    """The revision that the server is serving now."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings about the configuration."""
    cursor: Cursor | None = None
    """The newest change; None from a server that is too old."""
    waited_out: tuple[str, ...] = ()
    """With `wait`: the gates and replicas that did not confirm, but whose leases have ended."""

    def __bool__(self) -> bool:
        return self.succeeded


class ReplicaState(StrEnum):
    """The state of a replica of a fleet."""

    UNKNOWN = auto()
    """A state that this version of the client does not know."""
    FOLLOWING = auto()
    """Receives each invalidation."""
    JOINING = auto()
    """Sends heartbeats but does not follow the fleet; once it does, it looks up all cached groups
    again."""
    SILENT = auto()
    """Sends no heartbeats: it cannot reach Redis, or it has stopped."""
    STARTING = auto()
    """Was started a moment ago and does not follow the fleet yet."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a fleet: a server or one of its workers."""

    name: str
    """The setting `fleet.replica`."""
    state: ReplicaState
    """The state of the replica."""
    is_self: bool
    """Whether this replica is the one that was asked."""
    version: str
    """The version of queuegate that it runs."""
    lag: int
    """The number of changes that it has not applied yet."""
    policy_revision: int
    """The revision of its policy; each replica counts its own."""
    policy_checksum: str
    """The checksum of its policy; empty if it has none yet."""
    gates: int
    """The number of gates connected to it."""
    silent_seconds: float
    """Seconds since its last heartbeat."""


@dataclass(frozen=True, slots=True)
class FleetInfo:
    """A fleet, as one of its replicas sees it. Truthy only if all agree."""

    replicas: tuple[Replica, ...]
    """All replicas; empty if the server belongs to no fleet."""
    connected: bool
    """Whether the replica that was asked reaches Redis."""
    agreed: bool
    """Whether all replicas follow the fleet and serve the same policy. Without problems, it is
    false only while a replica is starting."""
    problems: tuple[str, ...] = ()
    """The problems of the fleet, in sentences for people."""

    def __bool__(self) -> bool:
        return self.agreed


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The diagnostics of a configuration. Truthy only if it can be served."""

    valid: bool
    """Whether the configuration can be served."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings about the configuration."""

    def __bool__(self) -> bool:
        return self.valid


class HealthStatus(StrEnum):
    """The health of the server or of one of its services. Truthy only if SERVING."""

    UNKNOWN = auto()
    """A status that this version of the client does not know."""
    SERVING = auto()
    """Answers calls."""
    NOT_SERVING = auto()
    """Running, but without a policy yet, or shutting down."""
    SERVICE_UNKNOWN = auto()
    """The server has no service of that name."""

    def __bool__(self) -> bool:
        return self is HealthStatus.SERVING
