"""Batches of both clients: in order, in as few requests as possible, each result apart."""

import pytest

import queuegate
from queuegate import Check, CheckFailure
from queuegate.v1 import access_pb2, status_pb2
from tests.support.client_calls import Ask
from tests.support.fakes.scripted_server import Script


async def test_check_many_keeps_the_order_and_fails_one_alone(ask: Ask, script: Script) -> None:
    users = ["alice", "denied1", "faulty", "bob", "denied2"]
    results = await ask("check_many", [Check(user, "root.a", groups=["g"]) for user in users])
    assert [bool(result) for result in results] == [True, False, False, True, False]
    assert results[0].matched_subject == "alice"
    assert results[3].matched_subject == "bob"
    failure = results[2]
    assert isinstance(failure, CheckFailure)
    assert isinstance(failure.error, queuegate.InvalidArgument)
    assert failure.error.violations == [("queue", "bad")]
    assert failure.error.reason == "INVALID_FIELD"
    assert len(script.requests("BatchCheckQueueAccess")) == 1


async def test_check_many_of_nothing_asks_nothing(ask: Ask, script: Script) -> None:
    assert await ask("check_many", iter(())) == []
    assert script.calls == []


async def test_a_question_that_cannot_be_right_stops_all(ask: Ask, script: Script) -> None:
    users = ["alice", "", "bob"]
    with pytest.raises(ValueError, match="user must not be empty") as caught:
        await ask("check_many", (Check(user, "root.a") for user in users))
    assert caught.value.__notes__ == ["at checks[1]; nothing was sent"]
    assert script.calls == []


async def test_check_many_splits_by_number(ask: Ask, script: Script) -> None:
    count = 25_001
    results = await ask("check_many", (Check(f"u{n}", "root.a") for n in range(count)))
    assert [result.matched_subject for result in results] == [f"u{n}" for n in range(count)]
    sizes = [len(batch.checks) for batch in script.requests("BatchCheckQueueAccess")]
    assert sizes == [10_000, 10_000, 5_001]


async def test_check_many_splits_by_size(ask: Ask, script: Script) -> None:
    # A server of default settings refuses requests above 4 MiB: all of them arrive.
    groups = ["g" * 255] * 4_000
    results = await ask("check_many", [Check(f"u{n}", "root.a", groups=groups) for n in range(9)])
    assert [result.matched_subject for result in results] == [f"u{n}" for n in range(9)]
    sizes = [len(batch.checks) for batch in script.requests("BatchCheckQueueAccess")]
    assert sizes == [4, 4, 1]


@pytest.mark.parametrize("answered", [0, 1, 3])
async def test_check_many_refuses_a_wrong_number_of_results(
    ask: Ask, script: Script, answered: int
) -> None:
    allowed = access_pb2.CheckResult(decision=access_pb2.CheckQueueAccessResponse(allowed=True))
    script.answers["BatchCheckQueueAccess"] = access_pb2.BatchCheckQueueAccessResponse(
        results=[allowed] * answered
    )
    with pytest.raises(queuegate.ServerError, match=f"{answered} results for 2 checks"):
        await ask("check_many", [Check("a", "root"), Check("b", "root")])


ALLOWED = access_pb2.CheckResult(decision=access_pb2.CheckQueueAccessResponse(allowed=True))
DENIED = access_pb2.CheckResult(decision=access_pb2.CheckQueueAccessResponse())
UNAVAILABLE = access_pb2.CheckResult(error=status_pb2.Status(code=14, message="ldap"))
UNKNOWN = access_pb2.CheckResult(error=status_pb2.Status(code=5, message="partition"))


def same(place: int) -> access_pb2.CheckResult:
    return access_pb2.CheckResult(same_error_as=place)


async def test_an_error_that_is_sent_once_is_the_error_of_each(ask: Ask, script: Script) -> None:
    results = [UNAVAILABLE, ALLOWED, same(0), UNKNOWN, same(3), same(0), DENIED]
    script.answers["BatchCheckQueueAccess"] = access_pb2.BatchCheckQueueAccessResponse(
        results=results
    )
    found = await ask("check_many", [Check("a", "root")] * len(results))
    assert [isinstance(result, CheckFailure) for result in found] == [
        *(True, False, True, True, True, True, False)
    ]
    assert [bool(result) for result in found] == [False, True, *[False] * 5]
    assert [str(found[place].error) for place in (0, 2, 5)] == ["ldap"] * 3
    assert [type(found[place].error) for place in (3, 4)] == [queuegate.UnknownPartition] * 2


@pytest.mark.parametrize(
    "results",
    [
        [access_pb2.CheckResult()],
        [same(0)],
        [same(1), UNAVAILABLE],
        [ALLOWED, same(0)],
        [UNAVAILABLE, same(0), same(1)],
        [UNAVAILABLE, same(2**32 - 1)],
        [access_pb2.CheckResult.FromString(b"\x20\x01")],
    ],
    ids=["unset", "itself", "later", "no error", "no error of its own", "absent", "newer outcome"],
)
async def test_a_result_without_an_outcome_is_a_failure(
    ask: Ask, script: Script, results: list[access_pb2.CheckResult]
) -> None:
    """Nobody is let in by an outcome that the client cannot read."""
    script.answers["BatchCheckQueueAccess"] = access_pb2.BatchCheckQueueAccessResponse(
        results=results
    )
    found = await ask("check_many", [Check("a", "root")] * len(results))
    for given, result in zip(results, found, strict=True):
        assert bool(result) == (given == ALLOWED)
        if given not in (ALLOWED, UNAVAILABLE, same(0)):
            assert isinstance(result.error, queuegate.ServerError)
    assert isinstance(found[-1], CheckFailure)
