"""The queue that a pod names, beside answers recorded from YuniKorn."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate import user_info
from queuegate.policy.names import queue_path

VECTORS: dict[str, Any] = json.loads(
    Path("tests/vectors/pod_queue_vectors.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", [pytest.param(each, id=each["id"]) for each in VECTORS["cases"]])
def test_vectors(case: dict[str, Any]) -> None:
    """A name that YuniKorn rejects becomes a path that the server refuses."""
    pod = {"labels": case["labels"], "annotations": case["annotations"]}
    queue = user_info.queue_of(pod, parent=case["parent"])
    if case["placed"] or not case["name"]:
        assert queue == case["placed"]
    else:
        assert queue
        assert queue_path(queue) is None


def test_a_pod_that_names_no_queue() -> None:
    for pod in (None, {}, {"labels": None, "annotations": None}, {"labels": {"queue": None}}):
        assert user_info.queue_of(pod) == ""


def test_root_is_no_parent_of_its_own() -> None:
    pod = {"labels": {"queue": "a.b"}}
    assert user_info.queue_of(pod) == user_info.queue_of(pod, parent="root") == "root.a_dot_b"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"metadata": {"labels": {"queue": "root.a"}}}, r'pod\["metadata"\]'),
        ({"labels": ["queue"]}, "metadata.labels must be a dict, not list"),
        ({"labels": {"queue": 1}}, r"metadata.labels\['queue'\] must be a string, not int"),
        ({"annotations": {user_info.QUEUE: ["root.a"]}}, "must be a string, not list"),
    ],
)
def test_what_is_not_metadata(metadata: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        user_info.queue_of(metadata)
