"""What a server says of users, of its policy and of itself. All are immutable."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto


class ResolveOutcome(StrEnum):
    """What a resolution came to."""

    UNSPECIFIED = auto()
    """An outcome that this release of the client does not know."""
    RESOLVED = auto()
    NOT_FOUND = auto()
    """The resolver knows for certain that there is no such user."""
    UNAVAILABLE = auto()
    """The resolver could not be asked, or gave an incomplete answer."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The groups of a user. True in a condition only if they are known."""

    user: str
    groups: tuple[str, ...]
    """The primary group first; empty unless `outcome` is RESOLVED."""
    outcome: ResolveOutcome
    resolver: str
    cached: bool
    stale: bool
    """Expired, and given because the resolver could not be asked, or not yet."""
    resolved_at: datetime | None
    """In UTC, as every time here."""
    expires_at: datetime | None
    detail: str
    """For people: why the user is unknown or the resolver could not be asked."""

    def __bool__(self) -> bool:
        return self.outcome is ResolveOutcome.RESOLVED


class Severity(StrEnum):
    """How bad a finding is."""

    UNSPECIFIED = auto()
    """A severity that this release of the client does not know."""
    ERROR = auto()
    """The configuration cannot be served."""
    WARNING = auto()
    """It can be, but probably does not mean what was intended."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding in a configuration text. Lines and columns count from 1; 0: no place."""

    severity: Severity
    line: int
    column: int
    queue: str
    """The queue that it is about; empty if about none."""
    message: str
    remedy: str
    file: str = ""
    """The name of the file that it is in; empty where a text was sent."""


@dataclass(frozen=True, slots=True)
class PolicyQueue:
    """A queue and its ACLs as configured; an absent ACL is empty."""

    path: str
    submit_acl: str
    admin_acl: str
    submit_acl_dropped_names: tuple[str, ...]
    """Names in the submit ACL that the ACL grammar does not accept."""
    admin_acl_dropped_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """The policy of a partition that is being served."""

    source: str
    """Where it was read from, for people."""
    revision: int
    checksum: str
    """The SHA-256 of the configuration text in upper-case hexadecimal; of several files, that
    of all their checksums."""
    loaded_at: datetime | None
    queues: tuple[PolicyQueue, ...]
    """Each queue after its parent and before its next sibling."""
    resolver: str
    partitions: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    """The warnings of this revision."""
    reload_failed_at: datetime | None
    """When the last reload failed; None if it succeeded."""
    reload_diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload came to. True in a condition only if it succeeded."""

    succeeded: bool
    revision: int
    """The revision that is being served now."""
    diagnostics: tuple[Diagnostic, ...]

    def __bool__(self) -> bool:
        return self.succeeded


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The findings in a configuration. True in a condition only if it can be served."""

    valid: bool
    diagnostics: tuple[Diagnostic, ...]

    def __bool__(self) -> bool:
        return self.valid


class HealthStatus(StrEnum):
    """Whether the server answers. True in a condition only if it is SERVING."""

    UNKNOWN = auto()
    SERVING = auto()
    NOT_SERVING = auto()
    """Up, but without a policy yet, or about to stop."""
    SERVICE_UNKNOWN = auto()
    """The server has no service of that name."""

    def __bool__(self) -> bool:
        return self is HealthStatus.SERVING
