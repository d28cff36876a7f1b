"""Code of callers, read by the type checker only.

An expected complaint is an `ignore`; mypy complains about those that are not needed.
"""

from typing import assert_type

import queuegate
from queuegate import Check, CheckFailure, Decision


def blocking(client: queuegate.Client, kind: str) -> None:
    assert_type(client.check("alice", "root"), Decision)
    assert_type(client.check("alice", "root", access="admin", groups={"g"}).allowed, bool)
    client.check("alice", "root", access=queuegate.Access(kind))
    client.check("alice", "root", access="write")  # type: ignore[arg-type]
    client.check("alice", "root", access=kind)  # type: ignore[arg-type]
    client.check("alice", "root", "default")  # type: ignore[call-arg]
    client.check(b"alice", "root")  # type: ignore[arg-type]
    assert_type(client.list_queues("alice"), list[str])
    assert_type(client.resolve("alice").groups, tuple[str, ...])
    assert_type(client.invalidate(["alice"]).dropped, int)
    assert_type(client.get_policy().revision, int)
    assert_type(client.check_health(), queuegate.HealthStatus)
    with client as same:
        assert_type(same, queuegate.Client)


def batch(client: queuegate.Client) -> None:
    for result in client.check_many([Check("alice", "root", access="admin")]):
        assert_type(result, Decision | CheckFailure)
        assert_type(result.allowed, bool)
        match result:
            case CheckFailure(error):
                assert_type(error, queuegate.QueuegateError)
            case Decision(allowed=allowed):
                assert_type(allowed, bool)
    client.check_many([("alice", "root")])  # type: ignore[list-item]


async def asynchronous(client: queuegate.aio.Client) -> None:
    assert_type(await client.check("alice", "root"), Decision)
    assert_type(await client.check_many([]), list[Decision | CheckFailure])
    assert_type(await client.explain("alice", "root"), queuegate.Explanation)
    assert_type(await client.validate("text"), queuegate.ValidationResult)
    assert_type(await client.reload(), queuegate.ReloadResult)
    async with client as same:
        assert_type(same, queuegate.aio.Client)


def failures(error: queuegate.QueuegateError) -> float | None:
    match error:
        case queuegate.InvalidArgument():
            assert_type(error.violations[0].field, str)
        case queuegate.Unavailable():
            return error.retry_after
    return None
