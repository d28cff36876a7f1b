"""Ask a queuegate server whether a user may use a queue, why, and with which groups.

    import queuegate

    with queuegate.Client("127.0.0.1:50051") as client:
        if client.check("alice", "root.research"):
            ...

`queuegate.aio.Client` is the same for asyncio, `queuegate.exceptions` has the tree
of what calls raise, `queuegate.v1` the generated messages for other uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from queuegate import exceptions
from queuegate._applications import (
    Action,
    ActionName,
    Application,
    ApplicationCheck,
    ApplicationExplanation,
    ApplicationList,
    ApplicationStep,
    SparkApplication,
)
from queuegate._results import (
    Diagnostic,
    HealthStatus,
    PolicyInfo,
    PolicyQueue,
    ReloadResult,
    Resolution,
    ResolveOutcome,
    Severity,
    ValidationResult,
)
from queuegate._settings import Retry, Tls
from queuegate._types import (
    Access,
    AccessName,
    Check,
    CheckFailure,
    Decision,
    ExplainedGroups,
    Explanation,
    GroupsOrigin,
    Reason,
    Step,
    StepOutcome,
)
from queuegate.exceptions import (
    CouldNotAsk,
    DeadlineExceeded,
    GroupsUnavailable,
    InvalidArgument,
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    QueuegateError,
    RequestRejected,
    ServerError,
    ServerUnavailable,
    UnknownPartition,
    Violation,
)

if TYPE_CHECKING:
    from queuegate import aio, user_info
    from queuegate._client import Client

__all__ = [
    "Access",
    "AccessName",
    "Action",
    "ActionName",
    "Application",
    "ApplicationCheck",
    "ApplicationExplanation",
    "ApplicationList",
    "ApplicationStep",
    "Check",
    "CheckFailure",
    "Client",
    "CouldNotAsk",
    "DeadlineExceeded",
    "Decision",
    "Diagnostic",
    "ExplainedGroups",
    "Explanation",
    "GroupsOrigin",
    "GroupsUnavailable",
    "HealthStatus",
    "InvalidArgument",
    "MessageTooLarge",
    "NotPermitted",
    "Overloaded",
    "PolicyInfo",
    "PolicyQueue",
    "QueuegateError",
    "Reason",
    "ReloadResult",
    "RequestRejected",
    "Resolution",
    "ResolveOutcome",
    "Retry",
    "ServerError",
    "ServerUnavailable",
    "Severity",
    "SparkApplication",
    "Step",
    "StepOutcome",
    "Tls",
    "UnknownPartition",
    "ValidationResult",
    "Violation",
    "aio",
    "exceptions",
    "user_info",
]


def __dir__() -> list[str]:
    """Name what is public, not what this module needs itself."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import the clients when they are first used: gRPC takes most of the time that
    `queuegate --help` would need.
    """
    if name == "Client":
        return import_module("queuegate._client").Client
    if name in {"aio", "user_info"}:
        return import_module(f"queuegate.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
