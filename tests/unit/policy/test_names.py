"""Names of queues and partitions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.names import (
    is_recovery_path,
    is_user_name,
    partition_name,
    queue_path,
)
from tests.support.rows import rows

VECTORS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())
USER_NAMES = json.loads(Path("tests/vectors/usergroup_vectors.json").read_text())["user_names"]


@pytest.mark.parametrize("vector", USER_NAMES, ids=lambda vector: vector["id"])
def test_user_names(vector: dict[str, Any]) -> None:
    assert is_user_name(vector["user"]) is vector["valid"]


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS["partition_names"] if vector["op"] == "without_rm_id"],
    ids=lambda vector: vector["id"],
)
def test_partition_name_without_resource_manager_id(vector: dict[str, str]) -> None:
    assert partition_name(vector["name"]) == vector["result"]


def test_empty_partition_name_means_default() -> None:
    assert partition_name("") == "default"


@pytest.mark.parametrize(
    "vector", VECTORS["recovery_queue_names"], ids=lambda vector: vector["queue"]
)
def test_recovery_queue_name(vector: dict[str, str]) -> None:
    path = vector["queue"].lower()
    below_is_ours = path.startswith("root.@recovery@.")
    assert is_recovery_path(path) is (vector["recovery"] or below_is_ours)


@rows
def test_queue_path(text: str, path: str | None) -> None:
    assert queue_path(text) == path


@given(st.text(alphabet="rotRT.aA@ \n\u0130", max_size=12))
def test_queue_paths_are_stable(text: str) -> None:
    path = queue_path(text)
    assert path is None or queue_path(path) == path
