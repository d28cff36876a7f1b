"""Immutable results of the client methods for users, policy and server."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto
from typing import Final

from queuegate._types import AclEntry
from queuegate.policy.decision import Access

_MAX_SEQUENCE: Final = 2**64 - 1


class ResolveOutcome(StrEnum):
    """The outcome of a resolution."""

    UNSPECIFIED = auto()
    """An outcome unknown to this client, because the server is newer."""
    RESOLVED = auto()
    """The groups are known."""
    NOT_FOUND = auto()
    """The resolver confirmed that the user does not exist."""
    UNAVAILABLE = auto()
    """The resolver was unavailable, or its response was incomplete."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A user's groups. Truthy only if they are known."""

    user: str
    """The user name."""
    groups: tuple[str, ...]
    """The groups, starting with the primary group; empty unless `outcome` is RESOLVED."""
    outcome: ResolveOutcome
    """Whether the groups are known."""
    resolver: str
    """The resolver name."""
    cached: bool
    """Whether the groups came from the cache."""
    stale: bool
    """Whether the groups have expired but could not be refreshed yet."""
    resolved_at: datetime | None
    """When the groups were resolved, in UTC."""
    expires_at: datetime | None
    """When the cached groups expire, in UTC."""
    detail: str
    """Why the user is unknown or the resolver is unavailable, in words."""

    def __bool__(self) -> bool:
        return self.outcome is ResolveOutcome.RESOLVED


class Severity(StrEnum):
    """The severity of a diagnostic."""

    UNSPECIFIED = auto()
    """A severity unknown to this client, because the server is newer."""
    ERROR = auto()
    """The configuration cannot be served."""
    WARNING = auto()
    """The configuration can be served, but may not behave as intended."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or warning about a configuration. Line and column are 0 if the diagnostic has no
    location.
    """

    severity: Severity
    """Whether the diagnostic prevents the configuration from being served."""
    line: int
    """The line in the file, from 1."""
    column: int
    """The column in the line, from 1."""
    queue: str
    """The affected queue, if any."""
    message: str
    """A one-sentence description of the problem."""
    remedy: str
    """The remedy, in one sentence."""
    file: str = ""
    """The file name; empty for text sent in a request."""

    @property
    def is_about_fleet(self) -> bool:
        """Whether the diagnostic is about the fleet's replicas, not a file. If so, `file` is
        "fleet".
        """
        return self.file == "fleet"


@dataclass(frozen=True, slots=True)
class PolicyQueue:
    """A queue with its configured ACLs. An ACL that is not configured is empty."""

    path: str
    """The full path."""
    submit_acl: str
    """The ACL for submission."""
    admin_acl: str
    """The ACL for administration. Administrators may also submit."""
    submit_acl_dropped_names: tuple[str, ...]
    """Invalid names in the submit ACL. They never match."""
    admin_acl_dropped_names: tuple[str, ...]
    """Invalid names in the admin ACL. They never match."""
    created_levels: int = 0
    """The maximum number of levels that YARN creates below this queue on first use."""
    submit_acl_entries: tuple[AclEntry, ...] = ()
    """The entries of a submit ACL that is built from Kubernetes role bindings and has no text."""


@dataclass(frozen=True, slots=True)
class QueueTemplate:
    """The ACLs of queues that YARN's capacity scheduler creates on first use."""

    path: str
    """The path below which created queues get these ACLs. Its last levels may be `*`, which matches
    any name."""
    kind: str
    """The kind of queue to which the template applies, as named in Hadoop's configuration."""
    submit_acl: str | None
    """The submit ACL as text; None if the template does not set it."""
    admin_acl: str | None
    """The admin ACL as text; None if the template does not set it."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy that the server is using for a partition."""

    source: str
    """The policy's source, for display."""
    revision: int
    """The revision: 1 when the server starts, incremented with each reload that changes the
    policy."""
    checksum: str
    """The SHA-256 of the configuration in uppercase hexadecimal; for several files, the SHA-256 of
    their checksums."""
    loaded_at: datetime | None
    """When the policy was loaded, in UTC."""
    queues: tuple[PolicyQueue, ...]
    """The queues in depth-first order, parents first."""
    resolver: str
    """The group resolver's name."""
    partitions: tuple[str, ...]
    """The names of all partitions."""
    diagnostics: tuple[Diagnostic, ...]
    """The warnings about this revision."""
    reload_failed_at: datetime | None
    """When the last reload failed, in UTC; None if it succeeded."""
    reload_diagnostics: tuple[Diagnostic, ...]
    """The last reload's errors; empty if it succeeded."""
    templates: tuple[QueueTemplate, ...] = ()
    """The ACLs of queues that YARN creates on first use."""
    format: str = ""
    """`yunikorn`, `fair-scheduler`, `capacity-scheduler` or `kubernetes`; empty if the server is
    too old to report it."""
    semantics: str = ""
    """The semantics of YARN's ACLs, `documented` or `hadoop`; empty for other formats."""
    unenforced: tuple[Access, ...] = ()
    """The kinds of access for which YARN does not enforce ACLs, because `yarn.acl.enable` is not
    true.
    """


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a server's sequence of changes. Passed as `at_least`, it makes a check reflect
    all changes up to that position.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `sequence` is out of range.
    """

    epoch: bytes
    """Identifies the server process that made the change."""
    sequence: int
    """The change's sequence number."""

    def __post_init__(self) -> None:
        if not isinstance(self.epoch, bytes):
            raise TypeError(f"epoch must be bytes, not {type(self.epoch).__name__}")
        if isinstance(self.sequence, bool) or not isinstance(self.sequence, int):
            raise TypeError(f"sequence must be an int, not {type(self.sequence).__name__}")
        if not 0 <= self.sequence <= _MAX_SEQUENCE:
            raise ValueError(f"sequence must be from 0 to 2**64 - 1, not {self.sequence}")


@dataclass(frozen=True, slots=True)
class StaleGate:
    """A gate that may still use the state from before a change, because its `stale` setting allows
    that while no server is reachable.
    """

    name: str
    """The gate's name, or a description of several gates, such as `gates of replica NAME`."""
    seconds: float
    """The maximum time for which it may still use that state, in seconds."""


@dataclass(frozen=True, slots=True)
class InvalidationResult:
    """The result of an invalidation."""

    dropped: int
    """The number of cached answers that were dropped."""
    cursor: Cursor | None = None
    """The change's cursor; None if the server is too old to return it."""
    waited_out: tuple[str, ...] = ()
    """If `wait` was true, the gates and replicas whose leases expired before they confirmed the
    change."""
    stale_gates: tuple[StaleGate, ...] = ()
    """If `wait` was true, the gates that may still use the old groups."""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The result of a reload. Truthy only if it succeeded."""

    succeeded: bool
    """Whether the reloaded configuration is now in use."""
    revision: int
    """The revision now in use."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings about the configuration."""
    cursor: Cursor | None = None
    """The latest change's cursor; None if the server is too old to return it."""
    waited_out: tuple[str, ...] = ()
    """If `wait` was true, the gates and replicas whose leases expired before they confirmed the
    change."""
    stale_gates: tuple[StaleGate, ...] = ()
    """If `wait` was true, the gates that may still use the old policy."""

    def __bool__(self) -> bool:
        return self.succeeded


class ReplicaState(StrEnum):
    """The state of a replica in a fleet."""

    UNKNOWN = auto()
    """A state unknown to this client, because the server is newer."""
    FOLLOWING = auto()
    """The replica follows the fleet and receives every invalidation."""
    JOINING = auto()
    """The replica sends heartbeats but does not follow the fleet. On joining the fleet, it looks up
    all cached groups again."""
    SILENT = auto()
    """The replica is not sending heartbeats, because it cannot reach Redis or has stopped."""
    STARTING = auto()
    """The replica has just started and does not follow the fleet yet."""


class ReplicaRole(StrEnum):
    """The kind of replica in a fleet."""

    UNKNOWN = auto()
    """The responding server does not report a role, or the role is unknown to this client."""
    SERVER = auto()
    """A gRPC server, or one of its workers."""
    WEBHOOK = auto()
    """An admission webhook."""


@dataclass(frozen=True, slots=True)
class QueueDecisions:
    """A webhook's decisions about one scheduler's queues since the webhook started."""

    scheduler: str
    """The scheduler, or another value of the `scheduler` label on the metric
    `queuegate_admission_queue_decisions_total`.
    """
    mode: str
    """The current mode; empty if the settings do not set one. If the scheduler's places have
    different modes, all these modes, separated by commas.
    """
    allowed: int
    """The number of names that were allowed."""
    denied: int
    """The number of names that were denied."""
    warned: int
    """The number of names that were accepted with a warning, and that `deny` mode would have
    denied.
    """
    failed: int
    """The number of checks that ended with an error."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica in a fleet: a server, a worker or a webhook."""

    name: str
    """The replica's name, from the `fleet.replica` setting."""
    state: ReplicaState
    """The replica's state."""
    is_self: bool
    """Whether this replica sent the response."""
    version: str
    """The version of queuegate that the replica runs."""
    lag: int
    """The number of changes that the replica has not applied yet."""
    policy_revision: int
    """The revision of the replica's policy. Each replica numbers its own revisions."""
    policy_checksum: str
    """The checksum of the replica's policy; empty until a policy has been loaded."""
    gates: int
    """The number of connected gates."""
    silent_seconds: float
    """The number of seconds since the last heartbeat."""
    role: ReplicaRole = ReplicaRole.UNKNOWN
    """The kind of replica."""
    queue_decisions: tuple[QueueDecisions, ...] = ()
    """For a webhook, its decisions by scheduler."""
    http_addresses: tuple[str, ...] = ()
    """The addresses on which a server listens over HTTP."""


@dataclass(frozen=True, slots=True)
class FleetGate:
    """A gate connected to a server. The gate reports all fields except `caller` and `replica`."""

    name: str
    """The gate's name."""
    caller: str
    """The name by which the server knows the caller, as in the audit log."""
    agent: str
    """The gate's program and version; empty if it is too old to report them."""
    replica: str
    """The replica that it is connected to; empty without a fleet."""
    stale: float
    """How long it may use its last state while no server is reachable, in seconds."""
    decided: int | None
    """The number of decisions that the gate has made in its process since it started; None if it
    does not send counts.
    """
    decided_stale: int | None
    """How many of these decisions it made from its last state, without a lease."""
    fallbacks: int | None
    """The number of questions that its caller's fallback decided; None if it has no fallback."""


@dataclass(frozen=True, slots=True)
class FleetInfo:
    """A fleet, as seen by one of its replicas. Truthy only if all replicas agree."""

    replicas: tuple[Replica, ...]
    """All replicas; empty without a fleet."""
    connected: bool
    """Whether the responding replica can reach Redis."""
    agreed: bool
    """Whether all replicas follow the fleet and use the same policy. In a healthy fleet, false only
    while a replica is starting."""
    problems: tuple[str, ...] = ()
    """The fleet's problems, in words."""
    gates: tuple[FleetGate, ...] = ()
    """Connected gates, at most 20 per replica, starting with those that have a fallback. Without a
    fleet, the server's own gates.
    """

    def __bool__(self) -> bool:
        return self.agreed


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The diagnostics for a configuration. Truthy only if the configuration can be served."""

    valid: bool
    """Whether the configuration can be served."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings about the configuration."""

    def __bool__(self) -> bool:
        return self.valid


class HealthStatus(StrEnum):
    """The health of the server or of a single service. Truthy only if SERVING."""

    UNKNOWN = auto()
    """A status unknown to this client, because the server is newer."""
    SERVING = auto()
    """The server accepts calls."""
    NOT_SERVING = auto()
    """The server has no policy yet, or is shutting down."""
    SERVICE_UNKNOWN = auto()
    """The server has no service with that name."""

    def __bool__(self) -> bool:
        return self is HealthStatus.SERVING
