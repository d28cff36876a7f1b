"""YuniKorn's verdicts on documents, and where we differ on purpose."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions, LoadResult, load_policy

VECTORS: Final = Path(__file__).parents[2] / "vectors"
CASES: Final[list[dict[str, Any]]] = json.loads((VECTORS / "config_vectors.json").read_text())[
    "cases"
]

MESSAGES: Final = {
    "yaml_syntax": r"invalid YAML|starts a YAML alias|has no anchor|a tab is not allowed",
    "unknown_field": r"unknown key ",
    "duplicate_key": r"the key .* is repeated",
    "type_mismatch": r" must be (a mapping|a list|text|true or false), not ",
    "no_queues": r"has no queues",
    "duplicate_partition": r"partition .* is already defined",
    "duplicate_queue": r"queue .* is already defined",
    "invalid_queue_name": r"is not a queue name|the queue has no name",
    "root_resources": r"the root queue must not have resources",
    "acl_fields": r"the ACL .* has 3 lists",
    "limit_user_name": r"is not a user name",
    "limit_group_name": r"is not a group name",
    "filter_user": r"is neither a user name nor a valid regular expression",
    "filter_group": r"is neither a group name nor a valid regular expression",
}
"""A pattern that one of the errors must match, by the reason in the vector."""

VALID_BUT_NOT_LOADED: Final = r"YuniKorn's validator accepts it, but its scheduler does not load it"

DEVIATIONS: Final = {
    "config-203": '4:13: error: "bogus" is not a resolver type',
    "config-205": '4:13: error: "5" is not a resolver type',
}
"""The only error that we give, by the vector that expects none."""


def load(case: dict[str, Any]) -> LoadResult:
    return load_policy("yunikorn", case["yaml"].encode(), "queues.yaml")


def errors(loaded: LoadResult) -> list[str]:
    return [
        str(diagnostic).removeprefix("queues.yaml:")
        for diagnostic in loaded.diagnostics
        if diagnostic.severity is Severity.ERROR
    ]


def ids(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] not in DEVIATIONS], ids=ids)
def test_agrees_with_yunikorn(case: dict[str, Any]) -> None:
    loaded = load(case)
    found = errors(loaded)
    if case["valid"] and case["loads"]:
        assert found == []
    elif case["valid"]:
        assert len(found) == 1
        assert re.search(VALID_BUT_NOT_LOADED, found[0])
    else:
        assert any(re.search(MESSAGES[case["reason"]], error) for error in found), found
    assert bool(found) or all(partition.queues for partition in loaded.partitions.values())
    assert not (found and loaded.partitions)


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in DEVIATIONS], ids=ids)
def test_deviates_in_just_the_listed_way(case: dict[str, Any]) -> None:
    assert case["valid"]
    assert case["loads"]
    found = errors(load(case))
    assert len(found) == 1
    assert found[0].startswith(DEVIATIONS[case["id"]])


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in DEVIATIONS], ids=ids)
def test_a_resolver_that_the_server_has_is_no_deviation(case: dict[str, Any]) -> None:
    types = frozenset({"bogus", "5"})
    loaded = load_policy(
        "yunikorn", case["yaml"].encode(), "f", FormatOptions(resolver_types=types)
    )
    assert loaded.diagnostics == ()
    assert loaded.partitions["default"].resolver_type in types


def test_every_deviation_is_documented() -> None:
    text = (VECTORS / "DEVIATIONS.md").read_text()
    section = text.partition("## Configuration vectors")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (config-\d+) \|", section, re.MULTILINE)) == set(DEVIATIONS)


def test_every_reason_has_a_message() -> None:
    assert {case["reason"] for case in CASES if not case["valid"]} == set(MESSAGES)
