"""Results about users, the policy and the server. All are immutable."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto


class ResolveOutcome(StrEnum):
    """The outcome of a resolution."""

    UNSPECIFIED = auto()
    """An outcome that this version of the client does not know."""
    RESOLVED = auto()
    NOT_FOUND = auto()
    """The resolver is certain that the user does not exist."""
    UNAVAILABLE = auto()
    """The resolver could not be asked, or its answer was incomplete."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The groups of a user. Truthy only if they are known."""

    user: str
    groups: tuple[str, ...]
    """The primary group first; empty unless `outcome` is RESOLVED."""
    outcome: ResolveOutcome
    resolver: str
    cached: bool
    stale: bool
    """Expired, because the resolver could not be asked or has not answered yet."""
    resolved_at: datetime | None
    """In UTC, like all times here."""
    expires_at: datetime | None
    detail: str
    """Why the user is unknown or the resolver could not be asked, for people."""

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
    """An error or a warning about a configuration. Lines and columns start at 1; 0: no position."""

    severity: Severity
    line: int
    column: int
    queue: str
    """The queue that it is about, if any."""
    message: str
    remedy: str
    file: str = ""
    """The name of the file; empty for a text that was sent."""


@dataclass(frozen=True, slots=True)
class PolicyQueue:
    """A queue and its ACLs as configured. A missing ACL is empty."""

    path: str
    submit_acl: str
    admin_acl: str
    submit_acl_dropped_names: tuple[str, ...]
    """Names in the submit ACL that the ACL grammar does not accept. They never match."""
    admin_acl_dropped_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy of a partition that the server is serving."""

    source: str
    """Where it was read from, for display."""
    revision: int
    checksum: str
    """The SHA-256 of the configuration in upper-case hexadecimal; for several files, that of
    their checksums."""
    loaded_at: datetime | None
    queues: tuple[PolicyQueue, ...]
    """Each queue after its parent and before its next sibling."""
    resolver: str
    partitions: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    """The warnings about this revision."""
    reload_failed_at: datetime | None
    """The time of the last reload, if it failed."""
    reload_diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The result of a reload. Truthy only if it succeeded."""

    succeeded: bool
    revision: int
    """The revision that the server is serving now."""
    diagnostics: tuple[Diagnostic, ...]

    def __bool__(self) -> bool:
        return self.succeeded


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The diagnostics of a configuration. Truthy only if it can be served."""

    valid: bool
    diagnostics: tuple[Diagnostic, ...]

    def __bool__(self) -> bool:
        return self.valid


class HealthStatus(StrEnum):
    """The health of the server or of one of its services. Truthy only if SERVING."""

    UNKNOWN = auto()
    SERVING = auto()
    NOT_SERVING = auto()
    """Running, but without a policy yet, or shutting down."""
    SERVICE_UNKNOWN = auto()
    """The server has no service of that name."""

    def __bool__(self) -> bool:
        return self is HealthStatus.SERVING
