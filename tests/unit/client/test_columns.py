"""Questions as columns mean what they mean alone; an answer that does not fit grants nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate import Check, CheckFailure, Decision, _columns, _requests
from queuegate.exceptions import InvalidArgument, ServerError
from queuegate.v1 import access_pb2, status_pb2

Request = access_pb2.CheckQueueAccessColumnsRequest
Response = access_pb2.CheckQueueAccessColumnsResponse

ONES = st.builds(
    Check,
    st.sampled_from(["alice", "bob", "wrong"]),
    st.sampled_from(["root", "root.a", "ROOT.a"]),
    st.sampled_from(["default", "other"]),
    st.sampled_from(["submit", "submit", "admin"]),
    st.sampled_from([(), ("dev",), ("dev", "ops")]),
    st.sampled_from(["", "", "hive"]),
)
CHECKS = st.lists(ONES, min_size=1, max_size=8).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=20, max_size=60)
)
INVALID = 3
FEWEST = _columns.MIN_QUESTIONS
MIXED = _columns.MIN_MIXED_QUESTIONS


def answer(request: Request) -> Response:
    """Answer as a server does; each decision names the whole question."""
    response = Response()
    numbers: dict[str, int] = {}
    failed = []
    for place in range(len(request.user_indexes)):
        user = request.users[request.user_indexes[place]]
        asked = (user.user, tuple(user.groups), request.queues[request.queue_indexes[place]])
        question = repr((*asked, request.partition, request.access))
        if user.user == "wrong":
            failed.append(place)
        elif question not in numbers:
            numbers[question] = len(numbers) + 1
            response.decisions.add(allowed=True, matched_subject=question)
        response.decision_indexes.append(numbers.get(question, 0))
    if failed:
        response.errors.add(error=status_pb2.Status(code=INVALID), questions=failed)
    return Response.FromString(response.SerializeToString())


def columns(checks: list[Check]) -> list[tuple[list[int], Request]]:
    return list(_columns.requests(checks))


@settings(max_examples=50)
@given(checks=CHECKS)
def test_each_question_is_asked_once_and_gets_its_own_answer(checks: list[Check]) -> None:
    found: dict[int, Decision | CheckFailure] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_columns, "MIN_QUESTIONS", 3)
        patch.setattr(_columns, "MIN_MIXED_QUESTIONS", 5)
        patch.setattr(_columns, "MAX_QUESTIONS", 20)
        for places, request in _columns.requests(checks):
            response = answer(Request.FromString(request.SerializeToString()))
            assert found.keys().isdisjoint(places)
            found.update(zip(places, _columns.results(request, response), strict=True))
    for place, result in found.items():
        check = checks[place]
        assert not check.real_user
        if check.user == "wrong":
            assert isinstance(result, CheckFailure)
            assert isinstance(result.error, InvalidArgument)
        else:
            kind = _requests.ACCESS_TYPES[check.access]
            asked = (check.user, check.groups, check.queue, check.partition, kind)
            assert isinstance(result, Decision)
            assert result.matched_subject == repr(asked)
    others = [
        (place, question)
        for places, batch in _requests.batches(checks, found)
        for place, question in zip(places, batch.checks, strict=True)
    ]
    assert others == [
        (place, _requests.check(check)) for place, check in enumerate(checks) if place not in found
    ]


ONE = Check("alice", "root")
OTHER = Check("alice", "root", partition="other")
ADMIN = Check("alice", "root", access="admin")
PROXY = Check("alice", "root", real_user="hive")
DIFFERENT = [Check(f"user{number}", "root") for number in range(MIXED)]


@pytest.mark.parametrize(
    ("checks", "sizes"),
    [
        ([], []),
        ([ONE] * (FEWEST - 1), []),
        ([ONE] * FEWEST, [FEWEST]),
        ([ADMIN] * FEWEST, [FEWEST]),
        ([PROXY] * MIXED, []),
        ([*[ONE] * (MIXED - 1), OTHER], []),
        ([*[ONE] * MIXED, OTHER], [MIXED]),
        ([ADMIN, *[ONE] * MIXED], [MIXED]),
        ([PROXY, *[ONE] * MIXED], [MIXED]),
        ([ONE, OTHER, ADMIN, PROXY] * MIXED, [MIXED] * 3),
        ([ONE, OTHER] * (MIXED - 1), []),
        (DIFFERENT, []),
        ([*DIFFERENT, DIFFERENT[0]], [MIXED + 1]),
        ([*DIFFERENT, *[OTHER] * MIXED], [MIXED]),
    ],
)
def test_columns_are_for_many_questions_alike_with_fewer_names(
    checks: list[Check], sizes: list[int]
) -> None:
    requests = columns(checks)
    assert [len(request.user_indexes) for _, request in requests] == sizes
    for places, request in requests:
        [kind] = {(checks[place].partition, checks[place].access) for place in places}
        assert kind == (request.partition, ["", "submit", "admin"][request.access])
        assert places == sorted(places)
        assert len(places) == len(request.user_indexes)


def test_more_than_one_request_takes_is_cut_into_equal_parts() -> None:
    checks = [Check(f"user{number % 7}", "root") for number in range(_columns.MAX_QUESTIONS)]
    requests = columns([*checks, OTHER, Check("last", "root")])
    assert [len(places) for places, _ in requests] == [10_001, 10_000]
    assert [len(request.users) for _, request in requests] == [7, 8]


def test_questions_too_large_for_one_request_go_otherwise() -> None:
    groups = ["g" * 1_000_000]
    checks = [Check(f"user{number % 5}", "root", groups=groups) for number in range(100)]
    assert columns(checks) == []


def too_few(response: Response) -> None:
    del response.decision_indexes[-1]


def beyond_the_decisions(response: Response) -> None:
    response.decision_indexes[0] = 9


def beyond_the_questions(response: Response) -> None:
    response.errors.add(error=status_pb2.Status(code=INVALID), questions=[99])


@pytest.mark.parametrize("spoil", [too_few, beyond_the_decisions, beyond_the_questions])
def test_an_answer_that_does_not_fit_is_refused(spoil: Callable[[Response], Any]) -> None:
    [(_, request)] = columns([ONE] * FEWEST)
    response = answer(request)
    spoil(response)
    with pytest.raises(ServerError):
        _columns.results(request, response)


def test_a_missing_decision_or_one_with_an_error_grants_nothing() -> None:
    [(_, request)] = columns([ONE] * FEWEST)
    response = answer(request)
    response.decision_indexes[0] = 0
    response.errors.add(error=status_pb2.Status(code=INVALID), questions=[1])
    absent, failed, allowed, *_ = _columns.results(request, response)
    assert isinstance(absent, CheckFailure)
    assert isinstance(failed, CheckFailure)
    assert (absent.error.code, failed.error.code) == ("INTERNAL", "INVALID_ARGUMENT")
    assert allowed
