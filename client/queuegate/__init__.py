"""Client for queuegate servers: check whether a user may use a queue, and why.

    >>> import queuegate
    >>> with queuegate.Client() as client:  # at QUEUEGATE_ADDRESS, or else 127.0.0.1:50051
    ...     decision = client.check("sue", "root.analytics.reports")
    >>> if decision:
    ...     print(f"admitted by {decision.reason}")
    admitted by user

`queuegate.aio.Client` is the asyncio counterpart. `queuegate.exceptions` contains the exceptions
raised by calls, `queuegate.v1` the generated protobuf messages, and `queuegate.policy` the server's
policy core, which makes decisions without a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    """The version of the installed distribution."""

    from queuegate import aio, exceptions, user_info
    from queuegate._applications import *
    from queuegate._client import *
    from queuegate._results import *
    from queuegate._settings import *
    from queuegate._types import *
    from queuegate._users import *
    from queuegate.exceptions import *
    from queuegate.gate.blocking import *
    from queuegate.gate.local_record import *
    from queuegate.gate.reflector import *
    from queuegate.policy.applications import Action
    from queuegate.policy.decision import Access, Reason
    from queuegate.policy.explain import StepOutcome
    from queuegate.policy.reach import SubjectKind

__all__ = [
    "Access",
    "AccessGrant",
    "AccessName",
    "AclEntry",
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
    if name in {"aio", "exceptions", "user_info"}:
        return import_module(f"queuegate.{name}")
    for module in _MODULES if name in __all__ else ():
        if name in (found := vars(import_module(f"queuegate.{module}"))):
            globals()[name] = found[name]
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
