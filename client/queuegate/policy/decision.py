"""The kinds of access to a queue, and decisions about them."""

from enum import StrEnum
from typing import Final, NamedTuple

from queuegate.policy.names import RECOVERY_QUEUE


class Access(StrEnum):
    """The kind of access to a queue."""

    SUBMIT = "submit"
    ADMIN = "admin"


class Reason(StrEnum):
    """Why access is granted or denied."""

    WILDCARD = "wildcard"
    USER = "user"
    GROUP = "group"
    NO_MATCH = "no match"
    UNKNOWN_USER = "unknown user"
    RECOVERY_QUEUE = "recovery queue"
    ACLS_DISABLED = "ACLs disabled"
    CLUSTER_ADMIN = "cluster admin"
    OWNER = "owner"

    # An enumeration computes its hash in Python, and decisions are dictionary keys.
    __hash__ = str.__hash__


class Decision(NamedTuple):
    """Whether access is granted, and why. A denial names no subject."""

    allowed: bool
    reason: Reason
    matched_queue: str = ""
    matched_subject: str = ""


NO_MATCH: Final = Decision(False, Reason.NO_MATCH)
UNKNOWN_USER: Final = Decision(False, Reason.UNKNOWN_USER)
IN_RECOVERY_QUEUE: Final = Decision(False, Reason.RECOVERY_QUEUE, RECOVERY_QUEUE)
ACLS_DISABLED: Final = Decision(True, Reason.ACLS_DISABLED)
