"""Client for queuegate servers: check whether a user may use a queue, and why.

    >>> import queuegate
    >>> with queuegate.Client() as client:  # at QUEUEGATE_ADDRESS, or else 127.0.0.1:50051
    ...     decision = client.check("sue", "root.analytics.reports")
    >>> if decision:
    ...     print(f"admitted by {decision.reason}")
    admitted by user

`queuegate.aio.Client` is the asyncio counterpart. `queuegate.exceptions` contains the exceptions
raised by calls, `queuegate.v1` the generated protobuf messages, and `queuegate.policy` the server's
policy core, for decisions without a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    """The version of the installed distribution."""

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
        Cursor,
        Diagnostic,
        FleetGate,
        FleetInfo,
        HealthStatus,
        InvalidationResult,
        PolicyInfo,
        PolicyQueue,
        QueueDecisions,
        QueueTemplate,
        ReloadResult,
        Replica,
        ReplicaRole,
        ReplicaState,
        Resolution,
        ResolveOutcome,
        Severity,
        StaleGate,
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
        StaleDecision,
        Step,
    )
    from queuegate._users import AccessGrant, ListedUser, UnexpandedGroup, UsableQueue, UserPage
    from queuegate.exceptions import (
        ClientClosed,
        DeadlineExceeded,
        GroupsUnavailable,
        InvalidArgument,
        MessageTooLarge,
        NotCaughtUp,
        NotPermitted,
        Overloaded,
        QueuegateError,
        RequestRejected,
        ServerError,
        ServerUnavailable,
        Unavailable,
        UnknownPartition,
        Violation,
    )
    from queuegate.gate.blocking import Gate
    from queuegate.gate.local_record import log_decision
    from queuegate.gate.reflector import GateState
    from queuegate.policy.applications import Action
    from queuegate.policy.decision import Access, Reason
    from queuegate.policy.explain import StepOutcome
    from queuegate.policy.reach import SubjectKind

__all__ = [
    "Access",
    "AccessGrant",
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
    "ClientClosed",
    "Cursor",
    "DeadlineExceeded",
    "Decision",
    "Diagnostic",
    "ExplainedGroups",
    "Explanation",
    "FleetGate",
    "FleetInfo",
    "Gate",
    "GateState",
    "GroupsOrigin",
    "GroupsUnavailable",
    "HealthStatus",
    "InvalidArgument",
    "InvalidationResult",
    "ListedUser",
    "MessageTooLarge",
    "NotCaughtUp",
    "NotPermitted",
    "Overloaded",
    "PolicyInfo",
    "PolicyQueue",
    "QueueDecisions",
    "QueueTemplate",
    "QueuegateError",
    "Reason",
    "ReloadResult",
    "Replica",
    "ReplicaRole",
    "ReplicaState",
    "RequestRejected",
    "Resolution",
    "ResolveOutcome",
    "Retry",
    "ServerError",
    "ServerUnavailable",
    "Severity",
    "SparkApplication",
    "StaleDecision",
    "StaleGate",
    "Step",
    "StepOutcome",
    "SubjectKind",
    "Tls",
    "Unavailable",
    "UnexpandedGroup",
    "UnknownPartition",
    "UsableQueue",
    "UserPage",
    "ValidationResult",
    "Violation",
    "aio",
    "exceptions",
    "log_decision",
    "user_info",
]

# `__getattr__` searches these modules in order. Modules that import gRPC come last, so that names
# from the other modules can be imported without loading gRPC.
_MODULES = (
    "exceptions", "_settings", "_types", "_results", "_applications", "_users", "_client",
    "gate.local_record", "gate.reflector", "gate.blocking",
)  # fmt: skip


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, "__version__", *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562).

    This way, `queuegate.policy` needs only the standard library, and `queuegate --help` does not
    spend most of its time importing gRPC.
    """
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        globals()[name] = version("queuegate")
        return globals()[name]
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
