"""Bodies of reviews with complete objects, and their bounds."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.admission.bodies import MAX_BODY_BYTES
from queuegate_server.admission.queues.body import MAX_ENTRIES, MAX_GROUPS, read_queue_review
from queuegate_server.admission.queues.model import QueueReview
from queuegate_server.admission.review import MalformedReview
from queuegate_server.runtime.event_loop import run_at_once
from tests.support.queue_reviews import body


def decoded(content: bytes) -> QueueReview:
    return run_at_once(read_queue_review(content))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(new=st.dictionaries(st.text(), values), old=st.none() | st.dictionaries(st.text(), values))
def test_objects_are_decoded_as_json(new: dict[str, Any], old: dict[str, Any] | None) -> None:
    content = json.loads(body("alice", None, groups=["dev"]))
    content["request"] |= {"object": new, "oldObject": old, "operation": "UPDATE"}
    try:
        encoded = json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        encoded = json.dumps(content).encode()
    review = decoded(encoded)
    assert (review.new, review.old) == (new, old)


def test_all_fields_of_the_request() -> None:
    review = decoded(
        body("alice", {}, groups=["dev"], subResource="status", operation="UPDATE", dryRun=True)
    )
    assert (review.uid, review.group, review.kind, review.subresource) == (
        *("u-1", "example.com", "Run"),
        "status",
    )
    assert (review.operation, review.namespace, review.name) == ("UPDATE", "team", "run-1")
    assert (review.user, review.groups, review.dry_run) == ("alice", ("dev",), True)


def test_absent_fields_are_empty() -> None:
    content = json.loads(body("alice", None))
    request = {name: content["request"][name] for name in ("uid", "userInfo")}
    content["request"] = request | {"kind": {}, "object": None}
    review = decoded(json.dumps(content).encode())
    assert (review.group, review.kind, review.namespace, review.name) == ("", "", "", "")
    assert (review.new, review.old, review.dry_run) == (None, None, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uid": ""}, "request.uid must not be empty"),
        ({"uid": 1}, "Expected `str`"),
        ({"userInfo": {}}, "request.userInfo.username must not be empty"),
        ({"userInfo": {"username": "a", "groups": "dev"}}, "Expected `array"),
        ({"userInfo": {"username": "a", "groups": ["g"] * (MAX_GROUPS + 1)}}, "groups has more"),
        ({"object": []}, "Expected `object"),
        ({"object": "text"}, "Expected `object"),
        ({"dryRun": "yes"}, "Expected `bool"),
    ],
)
def test_malformed_requests(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedReview, match=message):
        decoded(body("alice", {}, **changes))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        body("alice", {}).replace(b"v1", b"v1beta1", 1),
        body("alice", {}).replace(b"AdmissionReview", b"TokenReview"),
        body("\ud800", {}),
    ],
)
def test_malformed_bodies(content: bytes) -> None:
    with pytest.raises(MalformedReview):
        decoded(content)


@pytest.mark.parametrize("unit", [",[{", ',[{"\\', ',"', ',\\\\"', ',"\\"'])
@pytest.mark.parametrize("before", range(4))
def test_text_does_not_count_as_entries(unit: str, before: int) -> None:
    new = {"data": {"a" * before: unit * MAX_ENTRIES, "b": ["", unit]}}
    assert decoded(body("alice", new)).new == new


@pytest.mark.parametrize(
    "new",
    [
        [0] * MAX_ENTRIES,
        [[]] * MAX_ENTRIES,
        [{}] * MAX_ENTRIES,
        {str(number): "" for number in range(MAX_ENTRIES)},
        {str(number): ',"' for number in range(MAX_ENTRIES)},
    ],
)
def test_too_many_entries(new: Any) -> None:
    with pytest.raises(MalformedReview, match="more than 100000 entries"):
        decoded(body("alice", {"spec": new}))


@pytest.mark.parametrize("unit", [b"[", b'{"a":'])
def test_deep_nesting(unit: bytes) -> None:
    content = body("alice", {"spec": 7}).replace(b"7", unit * 100_000)
    with pytest.raises(MalformedReview):
        decoded(content)


@pytest.mark.parametrize("unit", [b'\\"', b"\\", b'",', b'"', b",", b"[]", b'"a":'])
def test_hostile_bodies_take_linear_time(unit: bytes) -> None:
    content = b'{"' + b"," * MAX_ENTRIES + unit * (MAX_BODY_BYTES // len(unit) - MAX_ENTRIES)
    started = time.process_time()
    with pytest.raises(MalformedReview):
        decoded(content)
    assert time.process_time() - started < 2


def test_a_long_body_is_read_in_steps() -> None:
    content = body("alice", {"spec": ",[{" * (MAX_BODY_BYTES // 4)})
    assert sum(1 for _ in read_queue_review(content)) > 20
