"""Kinds of access to a queue, and access decisions."""

from collections.abc import Mapping
from enum import StrEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from queuegate.policy.names import RECOVERY_QUEUE

RULES: Final = 3
"""The version of the decision rules, incremented whenever decisions change for any policy. Gates
with an older version query the server instead of deciding locally.
"""


class Access(StrEnum):
    """A kind of access to a queue."""

    SUBMIT = auto()
    """Submit an application."""
    ADMIN = auto()
    """Administer the queue."""

    # Members are dictionary keys, and Enum.__hash__ is slow because it is implemented in Python.
    __hash__ = str.__hash__


class Reason(StrEnum):
    """Why access was granted or denied."""

    UNSPECIFIED = auto()
    """A reason from a server newer than this client."""
    WILDCARD = auto()
    """Granted: an ACL allows everyone."""
    USER = auto()
    """Granted: an ACL lists the user."""
    GROUP = auto()
    """Granted: an ACL lists one of the user's groups."""
    NO_MATCH = auto()
    """Denied: no ACL from the queue up to the root lists the user or any of the user's groups."""
    UNKNOWN_USER = auto()
    """Denied: the decision depends on groups, and the resolver does not know the user."""
    RECOVERY_QUEUE = auto()
    """Denied: nobody may submit to the recovery queue or below it."""
    ACLS_DISABLED = auto()
    """Granted: the scheduler does not enforce ACLs."""
    CLUSTER_ADMIN = auto()
    """Granted: the user administers the cluster."""
    OWNER = auto()
    """Granted: the user owns the application."""
    UNKNOWN_QUEUE = auto()
    """Denied: the target queue of a move does not exist."""

    # Faster than Enum.__hash__; see `Access`.
    __hash__ = str.__hash__


class Outcome(NamedTuple):
    """Properties shared by all decisions with the same reason."""

    grants: bool
    """Whether access is granted."""
    depends_on_groups: bool
    """Whether the decision may depend on the user's groups."""


OUTCOMES: Final[Mapping[Reason, Outcome]] = MappingProxyType(
    {
        Reason.WILDCARD: Outcome(grants=True, depends_on_groups=False),
        Reason.USER: Outcome(grants=True, depends_on_groups=False),
        Reason.GROUP: Outcome(grants=True, depends_on_groups=True),
        Reason.NO_MATCH: Outcome(grants=False, depends_on_groups=True),
        Reason.UNKNOWN_USER: Outcome(grants=False, depends_on_groups=True),
        Reason.RECOVERY_QUEUE: Outcome(grants=False, depends_on_groups=False),
        Reason.ACLS_DISABLED: Outcome(grants=True, depends_on_groups=False),
        # Depends on groups, because the administrators' ACL may list groups.
        Reason.CLUSTER_ADMIN: Outcome(grants=True, depends_on_groups=True),
        Reason.OWNER: Outcome(grants=True, depends_on_groups=False),
        Reason.UNKNOWN_QUEUE: Outcome(grants=False, depends_on_groups=False),
    }
)
"""The outcome of each reason except UNSPECIFIED.

Metrics, audit records, both clients and the contract are derived from this table, or compared with
it by `tests/unit/policy/test_reasons.py`.
"""


class Decision(NamedTuple):
    """The result of an access check. A denial has no matched subject."""

    allowed: bool
    reason: Reason
    matched_queue: str = ""
    matched_subject: str = ""


NO_MATCH: Final = Decision(False, Reason.NO_MATCH)
UNKNOWN_QUEUE: Final = Decision(False, Reason.UNKNOWN_QUEUE)
UNKNOWN_USER: Final = Decision(False, Reason.UNKNOWN_USER)
IN_RECOVERY_QUEUE: Final = Decision(False, Reason.RECOVERY_QUEUE, RECOVERY_QUEUE)
ACLS_DISABLED: Final = Decision(True, Reason.ACLS_DISABLED)
