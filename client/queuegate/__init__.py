"""Ask a queuegate server whether a user may use a queue, why, and by which groups.

    import queuegate

    with queuegate.Client("127.0.0.1:50051") as client:
        if client.check("alice", "root.research"):
            ...

`queuegate.aio.Client` is the same for asyncio, `queuegate.exceptions` has the exceptions that
calls raise, `queuegate.v1` the generated messages, and `queuegate.policy` decides in this process
with the code of the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queuegate import aio, exceptions, user_info
    from queuegate._applications import (
        ActionName,
        Application,
        ApplicationCheck,
        ApplicationExplanation,
        ApplicationList,
        ApplicationStep,
        SparkApplication,
    )
    from queuegate._client import Client
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
        AccessName,
        Check,
        CheckFailure,
        Decision,
        ExplainedGroups,
        Explanation,
        GroupsOrigin,
        Step,
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
    from queuegate.policy.applications import Action
    from queuegate.policy.decision import Access, Reason
    from queuegate.policy.explain import StepOutcome

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

# Searched in this order; only the last one imports gRPC.
_MODULES = ("exceptions", "_settings", "_types", "_results", "_applications", "_client")


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562).

    `queuegate.policy` needs nothing but the standard library, and `queuegate --help` no gRPC,
    whose import would take most of its time.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in {"aio", "exceptions", "user_info"}:
        return import_module(f"queuegate.{name}")
    for module in _MODULES:
        value = getattr(import_module(f"queuegate.{module}"), name, None)
        if value is not None:
            break
    globals()[name] = value
    return value
