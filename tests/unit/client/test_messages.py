"""Requests within their limits, responses of every kind."""

from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int32Value
from hypothesis import given
from hypothesis import strategies as st

import queuegate
from queuegate import Check, _requests, _responses, _server_responses
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2

ENUMS: list[tuple[Any, str, type[StrEnum]]] = [
    (access_pb2.Reason, "REASON_", queuegate.Reason),
    (access_pb2.StepOutcome, "STEP_OUTCOME_", queuegate.StepOutcome),
    (access_pb2.GroupsOrigin, "GROUPS_ORIGIN_", queuegate.GroupsOrigin),
    (user_groups_pb2.ResolveOutcome, "RESOLVE_OUTCOME_", queuegate.ResolveOutcome),
    (policy_pb2.Severity, "SEVERITY_", queuegate.Severity),
]


@pytest.mark.parametrize(("contract", "prefix", "names"), ENUMS)
def test_names_are_those_of_the_contract(contract: Any, prefix: str, names: type[StrEnum]) -> None:
    expected = [name.removeprefix(prefix).lower() for name, _ in contract.items()]
    assert [str(name) for name in names] == expected


def test_kinds_of_access_are_those_of_the_contract() -> None:
    expected = {name.removeprefix("ACCESS_TYPE_").lower() for name in access_pb2.AccessType.keys()}  # noqa: SIM118
    assert {*map(str, queuegate.Access), "unspecified"} == expected


def test_numbers_of_a_newer_contract_are_unspecified() -> None:
    response = access_pb2.ExplainQueueAccessResponse()
    response.MergeFromString(
        # decision {reason: 99}, steps {acl: 99, outcome: 99}, groups {origin: 99}
        b"\x0a\x02\x10\x63" + b"\x12\x04\x10\x63\x20\x63" + b"\x1a\x02\x08\x63"
    )
    explanation = _responses.explanation(response)
    assert explanation.decision.reason is queuegate.Reason.UNSPECIFIED
    assert explanation.steps[0].outcome is queuegate.StepOutcome.UNSPECIFIED
    assert explanation.steps[0].acl is None
    assert explanation.groups.origin is queuegate.GroupsOrigin.UNSPECIFIED
    assert not explanation


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        (Timestamp(), datetime(1970, 1, 1, tzinfo=UTC)),
        (
            Timestamp(seconds=1_700_000_000, nanos=5_000),
            datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC),
        ),
        (Timestamp(seconds=2**62), None),
        (Timestamp(nanos=-1), None),
    ],
    ids=["zero", "usual", "far", "malformed"],
)
def test_times(stamp: Timestamp, expected: datetime | None) -> None:
    response = user_groups_pb2.ResolveUserGroupsResponse(resolved_at=stamp)
    resolution = _server_responses.resolution(response)
    assert resolution.resolved_at == expected
    assert resolution.expires_at is None


@given(
    st.lists(
        st.builds(
            Check,
            st.text("aé€\N{GRINNING FACE}", min_size=1, max_size=20),
            st.just("root.a"),
            groups=st.lists(st.text("abc", min_size=1, max_size=10), max_size=3),
        ),
        max_size=40,
    ),
    st.integers(1, 10),
    st.integers(200, 500),
)
def test_batches_hold_all_questions_in_order_within_the_limits(
    checks: list[Check], most: int, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_requests, "MAX_BATCH", most)
        patch.setattr(_requests, "MAX_REQUEST_BYTES", size)
        batches = [batch for _, batch in _requests.batches(checks)]
    assert [item for batch in batches for item in batch.checks] == [
        _requests.check(check) for check in checks
    ]
    for batch in batches:
        assert 1 <= len(batch.checks) <= most
        assert batch.ByteSize() <= size
    for one, following in pairwise(batches):
        # As few requests as possible: the next question would have had no place.
        room = len(one.checks) < most
        assert not room or one.ByteSize() + following.checks[0].ByteSize() + 100 > size


def test_a_question_that_no_request_can_carry() -> None:
    fits = Check("alice", "root")
    too_large = Check("alice", "root", groups=["g" * 1_000_000] * 5)
    with pytest.raises(
        queuegate.MessageTooLarge, match=r"checks\[1\] exceeds the size limit of a request"
    ):
        list(_requests.batches([fits, too_large], {0}))


@given(st.sampled_from(list(range(5))), st.text(max_size=20).filter(lambda text: text.isascii()))
def test_health_messages_have_the_bytes_of_the_standard(number: int, service: str) -> None:
    # Field 1 of each, by the numbers of the standard alone.
    assert _requests.health(service).SerializeToString() == (
        b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
    )
    status = _server_responses.health(Int32Value.FromString(bytes([8, number])))
    assert bool(status) is (number == 1)
    assert (
        str(status) == ["unknown", "serving", "not_serving", "service_unknown", "unknown"][number]
    )
