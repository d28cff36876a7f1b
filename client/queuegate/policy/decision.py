"""What is asked about a queue, and what the answer is."""

from enum import StrEnum
from typing import Final, NamedTuple

from queuegate.policy.names import RECOVERY_QUEUE


class Access(StrEnum):
    """What a user may want to do with a queue."""

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

    # The hash of an enumeration is computed in Python; decisions are looked up by it.
    __hash__ = str.__hash__


class Decision(NamedTuple):
    """The answer. A denial names no subject."""

    allowed: bool
    reason: Reason
    matched_queue: str = ""
    matched_subject: str = ""


NO_MATCH: Final = Decision(False, Reason.NO_MATCH)
UNKNOWN_USER: Final = Decision(False, Reason.UNKNOWN_USER)
IN_RECOVERY_QUEUE: Final = Decision(False, Reason.RECOVERY_QUEUE, RECOVERY_QUEUE)
ACLS_DISABLED: Final = Decision(True, Reason.ACLS_DISABLED)
