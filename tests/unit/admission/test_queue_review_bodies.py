"""Bodies of reviews with complete objects, and their bounds."""

import json
import time
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.admission.queues import body as queue_body
from queuegate_server.admission.queues.body import read_queue_review
from queuegate_server.admission.queues.model import QueueReview
from queuegate_server.admission.server.review import MalformedReview
from queuegate_server.admission.server.webhook_limits import (
    MAX_BODY_BYTES,
    MAX_OBJECT_ENTRIES,
    MAX_REQUEST_GROUPS,
)
from tests.support.long_work import finish
from tests.support.queue_reviews import body
from tests.support.rows import rows

TOO_MANY = f"the object has more than {MAX_OBJECT_ENTRIES} entries"


def decoded(content: bytes) -> QueueReview:
    review: QueueReview = finish(read_queue_review(content))
    return review


def written(new: Any, old: Any = None) -> bytes:
    """Return a review of two objects without spaces, as an API server writes it."""
    content = json.loads(body("alice", new, oldObject=old, operation="UPDATE"))
    return json.dumps(content, separators=(",", ":")).encode()


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
    assert (review.new, review.old, review.fault) == (new, old, "")


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
        (
            {"userInfo": {"username": "a", "groups": ["g"] * (MAX_REQUEST_GROUPS + 1)}},
            "groups has more",
        ),
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
    new = {"data": {"a" * before: unit * MAX_OBJECT_ENTRIES, "b": ["", unit]}}
    assert decoded(body("alice", new)).new == new


@rows
def test_entries_are_counted(entry: str, each: int) -> None:
    most = (MAX_OBJECT_ENTRIES - 1) // each
    for count, fault in ((most, ""), (most + 1, TOO_MANY)):
        spec = json.loads(f"[{','.join([entry] * count)}]")
        review = decoded(written({"spec": spec}))
        assert review.fault == fault
        if not fault:
            assert review.new == {"spec": spec}


@given(value=st.dictionaries(st.text(), values), step=st.integers(1, 20))
def test_entries_are_counted_in_every_step(value: dict[str, Any], step: int) -> None:
    content = written({"data": value})
    for limit, fault in ((entries({"data": value}), False), (entries(value), True)):
        with (
            mock.patch.object(queue_body, "MAX_OBJECT_ENTRIES", limit),
            mock.patch.object(queue_body, "_STEP_BYTES", step),
        ):
            assert bool(decoded(content).fault) is fault


def entries(value: object) -> int:
    """Return the number of entries of all maps and lists in a value."""
    if not isinstance(value, dict | list):
        return 0
    return len(value) + sum(map(entries, value.values() if isinstance(value, dict) else value))


@pytest.mark.parametrize("value", ["", ',"', '\\",'])
def test_keys_are_entries(value: str) -> None:
    new = {str(number): value for number in range(MAX_OBJECT_ENTRIES - 1)}
    assert decoded(body("alice", {"data": new})).new == {"data": new}
    assert decoded(body("alice", {"data": new | {"x": ""}})).fault == TOO_MANY


def managed(keys: int, **others: Any) -> dict[str, Any]:
    """Return an object of many keys, as an API server stores it with its managed fields."""
    fields: dict[str, Any] = {f"f:key-{number}": {} for number in range(keys)}
    entry = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": fields}}
    data = {f"key-{number}": "" for number in range(keys)}
    return {"metadata": {"labels": {"a": "b"}, "managedFields": [entry], **others}, "data": data}


def test_managed_fields_are_no_entries() -> None:
    new, old = managed(45_000, name="a"), managed(40_000)
    review = decoded(written(new, old))
    assert review.fault == ""
    new["metadata"]["managedFields"] = old["metadata"]["managedFields"] = None
    assert (review.new, review.old) == (new, old)


def test_members_that_look_like_the_managed_fields_are_searched() -> None:
    new = managed(40_000)
    new["spec"] = {"managedFields": new["metadata"]["managedFields"]}
    assert decoded(written(new)).fault == TOO_MANY
    new["spec"] = {"managedFields": [managed(1)]}
    assert decoded(written(new)).new == {
        **new,
        "metadata": {**new["metadata"], "managedFields": None},
    }


def test_an_old_object_of_too_many_entries_is_not_decoded() -> None:
    review = decoded(written({"spec": 1}, {"spec": [0] * MAX_OBJECT_ENTRIES}))
    assert (review.new, review.old, review.fault) == ({"spec": 1}, None, "")


LARGE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": [0] * MAX_OBJECT_ENTRIES}


@pytest.mark.parametrize(
    ("old", "is_same"),
    [
        (LARGE, True),
        ({**LARGE, "metadata": {"finalizers": ["x"], "labels": {"a": "b"}}}, True),
        ({**LARGE, "metadata": {"labels": {"a": "b"}, "managedFields": []}}, True),
        ({**LARGE, "metadata": {"labels": {"a": "c"}}}, False),
        ({**LARGE, "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}, False),
        ({**LARGE, "metadata": None}, False),
        ({**LARGE, "spec": [1]}, False),
        ({"x": LARGE, **LARGE}, False),
        (None, False),
    ],
)
def test_objects_that_are_not_decoded_can_be_compared(old: Any, is_same: bool) -> None:
    review = decoded(written(LARGE, old))
    assert review.fault == TOO_MANY
    assert (review.new == review.old) is is_same


def test_a_request_with_an_object_that_is_not_decoded() -> None:
    review = decoded(body("alice", LARGE, groups=["dev"], dryRun=True, subResource="status"))
    assert (review.uid, review.user, review.groups) == ("u-1", "alice", ("dev",))
    assert (review.dry_run, review.subresource, review.name) == (True, "status", "run-1")
    assert "0,0" not in str(review.new)[:200]


@pytest.mark.parametrize("unit", [b"[", b'{"a":'])
def test_deep_nesting(unit: bytes) -> None:
    content = body("alice", {"spec": 7}).replace(b"7", unit * 100_000)
    with pytest.raises(MalformedReview):
        decoded(content)


@pytest.mark.parametrize("unit", [b'\\"', b"\\", b'",', b'"', b",", b"[]", b'"a":'])
def test_hostile_bodies_take_linear_time(unit: bytes) -> None:
    text = b"," * MAX_OBJECT_ENTRIES + unit * (MAX_BODY_BYTES // len(unit) - MAX_OBJECT_ENTRIES)
    started = time.process_time()
    with pytest.raises(MalformedReview):
        decoded(b'{"' + text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("unit", ["a", '"', "\\", ',"', '"managedFields":"', "[{"])
def test_hostile_objects_take_linear_time(unit: str) -> None:
    """Parts of the text that is cut out occur again and again."""
    text = unit * (MAX_BODY_BYTES // 8 // len(unit))
    metadata = {"labels": {"a": text}, "managedFields": text}
    content = written({"metadata": metadata, "spec": [f"{text}a", [0] * MAX_OBJECT_ENTRIES]})
    started = time.process_time()
    assert decoded(content).fault == TOO_MANY
    assert time.process_time() - started < 2


def test_a_long_body_is_read_in_steps() -> None:
    content = body("alice", {"spec": ",[{" * (MAX_BODY_BYTES // 4)})
    assert sum(1 for _ in read_queue_review(content)) > 20
