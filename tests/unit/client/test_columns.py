"""Questions as columns mean what they mean alone; an answer that does not fit grants nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from google.rpc import status_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate import Check, CheckFailure, Decision, _columns
from queuegate.exceptions import InvalidArgument, ServerError
from queuegate.v1 import access_pb2

Request = access_pb2.CheckQueueAccessColumnsRequest
Response = access_pb2.CheckQueueAccessColumnsResponse

USERS = st.sampled_from(["alice", "bob", "wrong"])
GROUPS = st.sampled_from([(), ("dev",), ("dev", "ops")])
QUEUES = st.sampled_from(["root", "root.a", "ROOT.a"])
INVALID = 3


@st.composite
def questions(draw: st.DrawFn) -> list[Check]:
    """Make questions of one kind, now and then one of another."""
    access = draw(st.sampled_from(["submit", "admin"]))
    odd = {"partition": ["other"], "access": ["submit", "admin"], "real_user": ["hive"]}
    checks = draw(
        st.lists(
            st.builds(Check, USERS, QUEUES, access=st.just(access), groups=GROUPS),
            min_size=_columns._FEWEST,
            max_size=_columns._FEWEST + 20,
        )
    )
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(odd)))
        change: dict[str, Any] = {"access": access, name: draw(st.sampled_from(odd[name]))}
        place = draw(st.integers(0, len(checks)))
        checks.insert(place, Check("alice", "root", **change))
    return checks


def answer(request: Request) -> Response:
    """Answer as a server does; who may is told by all that was asked."""
    response = Response()
    numbers: dict[str, int] = {}
    failed = []
    for place in range(len(request.user_indexes)):
        user = request.users[request.user_indexes[place]]
        asked = (user.user, tuple(user.groups), request.queues[request.queue_indexes[place]])
        told = repr((*asked, request.partition, request.access))
        if user.user == "wrong":
            failed.append(place)
        elif told not in numbers:
            numbers[told] = len(numbers) + 1
            response.decisions.add(allowed=True, matched_subject=told)
        response.decision_indexes.append(numbers.get(told, 0))
    if failed:
        response.errors.add(error=status_pb2.Status(code=INVALID), questions=failed)
    return Response.FromString(response.SerializeToString())


@settings(max_examples=30)
@given(checks=questions())
def test_each_question_gets_its_own_answer(checks: list[Check]) -> None:
    requests = _columns.requests(checks)
    first = checks[0]
    alike = all((one.partition, one.access) == (first.partition, first.access) for one in checks)
    if not alike or any(one.real_user for one in checks):
        assert requests is None
        return
    assert requests is not None
    found = [
        result
        for request in requests
        for result in _columns.results(
            request, answer(Request.FromString(request.SerializeToString()))
        )
    ]
    kinds = {"submit": access_pb2.ACCESS_TYPE_SUBMIT, "admin": access_pb2.ACCESS_TYPE_ADMIN}
    for check, result in zip(checks, found, strict=True):
        if check.user == "wrong":
            assert isinstance(result, CheckFailure)
            assert isinstance(result.error, InvalidArgument)
        else:
            asked = (check.user, check.groups, check.queue, check.partition, kinds[check.access])
            assert isinstance(result, Decision)
            assert result.matched_subject == repr(asked)


def test_columns_are_for_many_questions_with_fewer_names() -> None:
    fewest = _columns._FEWEST
    assert _columns.requests([]) is None
    assert _columns.requests([Check("alice", "root")] * (fewest - 1)) is None
    assert _columns.requests([Check("alice", "root")] * fewest) is not None
    different = [Check(f"user{number}", "root") for number in range(fewest)]
    assert _columns.requests(different) is None
    assert _columns.requests([*different, different[0]]) is not None


def test_more_than_one_request_takes_is_cut_into_equal_parts() -> None:
    checks = [Check(f"user{number % 7}", "root") for number in range(_columns._MOST)]
    requests = _columns.requests([*checks, Check("last", "root")])
    assert requests is not None
    assert [len(request.user_indexes) for request in requests] == [10_001, 10_000]
    assert [len(request.users) for request in requests] == [7, 8]


def test_questions_too_large_for_one_request_go_otherwise() -> None:
    groups = ["g" * 1_000_000]
    checks = [Check(f"user{number % 5}", "root", groups=groups) for number in range(100)]
    assert _columns.requests(checks) is None


def too_few(response: Response) -> None:
    del response.decision_indexes[-1]


def beyond_the_decisions(response: Response) -> None:
    response.decision_indexes[0] = 9


def beyond_the_questions(response: Response) -> None:
    response.errors.add(error=status_pb2.Status(code=INVALID), questions=[99])


@pytest.mark.parametrize("spoil", [too_few, beyond_the_decisions, beyond_the_questions])
def test_an_answer_that_does_not_fit_is_refused(spoil: Callable[[Response], Any]) -> None:
    [request] = _columns.requests([Check("alice", "root")] * _columns._FEWEST) or []
    response = answer(request)
    spoil(response)
    with pytest.raises(ServerError):
        _columns.results(request, response)


def test_what_is_left_out_or_an_error_as_well_grants_nothing() -> None:
    [request] = _columns.requests([Check("alice", "root")] * _columns._FEWEST) or []
    response = answer(request)
    response.decision_indexes[0] = 0
    response.errors.add(error=status_pb2.Status(code=INVALID), questions=[1])
    absent, failed, allowed, *_ = _columns.results(request, response)
    assert isinstance(absent, CheckFailure)
    assert isinstance(failed, CheckFailure)
    assert (absent.error.code, failed.error.code) == ("INTERNAL", "INVALID_ARGUMENT")
    assert allowed
