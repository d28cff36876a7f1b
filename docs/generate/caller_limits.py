"""The section of limits.md on the limits for one caller, in the order in which they apply."""

from types import ModuleType
from typing import Final, NamedTuple

from docs.generate.markdown import code, table
from queuegate_server.config_fields import MIB
from queuegate_server.identity import guarded_resolver, members
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.rpc import (
    authorization,
    batch,
    health,
    interceptors,
    load_shedding,
    policy_service,
    sync_service,
    wire,
)
from queuegate_server.server import wiring
from queuegate_server.settings.limits import Connections, Limits, Sync
from queuegate_server.throttling import controlled_delay
from queuegate_server.transports import grpcio, stalls

_OVERLOADED: Final = "`OVERLOADED`"
_QUEUES: Final = "the client queues it"


class _Limit(NamedTuple):
    """One row: a limit, whose calls count together, and what happens beyond it."""

    what: str
    limit: str
    setting: str
    shared_by: str
    beyond: str
    enforced_in: ModuleType


def section() -> str:
    """Return the text and the table."""
    rows = [
        (each.what, each.limit, code(each.setting), each.shared_by, each.beyond, _file(each))
        for each in _limits()
    ]
    head = ("what", "limit", "setting", "counted for", "beyond it", "enforced in")
    return "\n\n".join([_INTRODUCTION, table(head, rows), _NO_LIMITS])


_INTRODUCTION: Final = """\
These limits apply to a call in this order. `OVERLOADED` and `RATE_LIMITED` have the status
`RESOURCE_EXHAUSTED` and say when to retry. Files are under `server/queuegate_server/`."""

_NO_LIMITS: Final = """\
A caller is `certificate:NAME`, `token:NAME`, `loopback` or `unix`, as in the log. There is no limit
for:

- one caller's calls in progress: one caller can take all of `limits.max_concurrent_calls`, with at
  most `limits.connections.max_streams` on each connection. To limit callers, set
  `limits.caller_rate`;
- connections from one caller or address;
- the lookups that one caller causes, apart from the limit on those of one request;
- the duration of a call: the caller's deadline ends it. Without a deadline, it ends when its
  lookups have ended, each of which takes at most twice `lookup_timeout`."""


def _limits() -> list[_Limit]:
    defaults, connections, sync = Limits(), Connections(), Sync()
    resolver = ResolverOptions.model_fields
    rate = f"{defaults.caller_rate:g}" if defaults.caller_rate else "none by default"
    return [
        _Limit(
            "Connections",
            f"{connections.most:,}",
            "limits.connections.most",
            "each address that the server listens on",
            "the connection is closed",
            grpcio,
        ),
        _Limit(
            "Calls in progress on one connection",
            f"{connections.max_streams}",
            "limits.connections.max_streams",
            "each connection",
            _QUEUES,
            grpcio,
        ),
        _Limit(
            "Time for a request to arrive, and for an answer to be read",
            f"{stalls.TRANSFER_SECONDS:g} s",
            "",
            "each call",
            "`DEADLINE_EXCEEDED`; the connection is closed",
            stalls,
        ),
        _Limit(
            "Calls whose request has not arrived",
            f"{stalls.MAX_RECEIVING}",
            "",
            "all callers",
            f"the oldest ends with {_OVERLOADED}",
            stalls,
        ),
        _Limit(
            "Size of a request",
            f"{defaults.max_message // MIB} MiB",
            "limits.max_message",
            "each call",
            "`RESOURCE_EXHAUSTED`",
            grpcio,
        ),
        _Limit(
            "Calls in progress",
            f"{defaults.max_concurrent_calls}",
            "limits.max_concurrent_calls",
            "all callers; gates' streams do not count",
            _OVERLOADED,
            interceptors,
        ),
        _Limit(
            "Rate of calls",
            f"{rate}; at once {defaults.caller_burst}",
            "limits.caller_rate",
            "each caller",
            "`RATE_LIMITED`",
            authorization,
        ),
        _Limit(
            "Waiting time of long calls (several checks, or more than "
            f"{wire.MAX_SHORT_REQUEST // 1024} KiB), if it persists",
            f"{controlled_delay.MAX_WAIT_SECONDS * 1000:g} ms",
            "",
            "all callers",
            _OVERLOADED,
            load_shedding,
        ),
        _Limit(
            "Requests of long calls, waiting or running",
            f"{load_shedding.MAX_REQUESTS // MIB} MiB",
            "",
            "all callers",
            _OVERLOADED,
            load_shedding,
        ),
        _Limit(
            "Unread answers",
            f"{wiring.MAX_UNREAD // MIB} MiB",
            "",
            "all callers",
            f"long calls end with {_OVERLOADED}, and slow readers lose their connection",
            stalls,
        ),
        _Limit(
            "Lookups of one request at once",
            f"{batch.MAX_LOOKUPS}",
            "",
            "each request",
            "the others wait",
            batch,
        ),
        _Limit(
            "Lookups in a resolver at once",
            f"{resolver['max_concurrent'].default}",
            "resolvers.NAME.max_concurrent",
            "all callers",
            "they wait",
            guarded_resolver,
        ),
        _Limit(
            "Lookups that wait, for up to `lookup_timeout`",
            f"{guarded_resolver.MAX_WAITING:,}",
            "",
            "all callers",
            _OVERLOADED,
            guarded_resolver,
        ),
        _Limit(
            "Lists of a queue's users at once",
            f"{members.MAX_LISTINGS}",
            "",
            "all callers of a resolver",
            "they wait, and may be incomplete",
            members,
        ),
        _Limit(
            "`ValidatePolicy` calls",
            f"{policy_service.MAX_VALIDATIONS}, one at a time",
            "",
            "all callers",
            _OVERLOADED,
            policy_service,
        ),
        _Limit(
            "Gate streams",
            f"{sync.streams}",
            "sync.streams",
            "all callers",
            _OVERLOADED,
            sync_service,
        ),
        _Limit(
            "Gate streams of one caller",
            f"{sync.streams_per_caller}",
            "sync.streams_per_caller",
            "each caller",
            _OVERLOADED,
            sync_service,
        ),
        _Limit(
            "Health watches",
            f"{health.MAX_WATCHES}",
            "",
            "all callers",
            "`RESOURCE_EXHAUSTED`",
            health,
        ),
    ]


def _file(limit: _Limit) -> str:
    path = limit.enforced_in.__name__.removeprefix("queuegate_server.").replace(".", "/")
    return code(f"{path}.py")
