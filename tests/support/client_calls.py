"""The calls of both clients, by method name."""

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import grpc

import queuegate
from queuegate import Check
from tests.support.fakes.scripted_server import Fault

Ask = Callable[..., Awaitable[Any]]
QUICK = queuegate.Retry(attempts=4, initial_backoff=0.01, max_backoff=0.01)
UNAVAILABLE = Fault(grpc.StatusCode.UNAVAILABLE)


VIEW = ("alice", "view", queuegate.Application("root.a", "bob"))
ABOUT_VIEWING = queuegate.ApplicationCheck("alice", "view", VIEW[2])
CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("check", "CheckQueueAccess", ("alice", "root")),
    ("check_many", "BatchCheckQueueAccess", ([Check("alice", "root")],)),
    ("check_many", "CheckQueueAccessColumns", ([Check("alice", "root")] * 64,)),
    ("explain", "ExplainQueueAccess", ("alice", "root")),
    ("check_application", "CheckApplicationAccess", VIEW),
    (
        "check_applications",
        "BatchCheckApplicationAccess",
        ([ABOUT_VIEWING],),
    ),
    ("explain_application", "ExplainApplicationAccess", VIEW),
    ("list_queues", "ListQueues", ("alice",)),
    ("explain_queues", "ListQueues", ("alice",)),
    ("list_users", "ListUsers", ("root",)),
    ("resolve", "ResolveUserGroups", ("alice",)),
    ("invalidate", "InvalidateUserGroups", ()),
    ("get_policy", "GetPolicy", ()),
    ("reload", "ReloadPolicy", ()),
    ("get_fleet", "GetFleet", ()),
    ("validate", "ValidatePolicy", ("",)),
]


def arguments(question: queuegate.ApplicationCheck) -> dict[str, Any]:
    """Return the arguments of `check_application` for a question."""
    return {each.name: getattr(question, each.name) for each in fields(question)}
