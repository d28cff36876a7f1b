"""The properties from which Spark and Flink make labels and annotations of pods."""

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.admission.queues.model import FETCHED, OPTIONS, UNREADABLE
from queuegate_server.admission.queues.properties import (
    Property,
    TextCount,
    Unreadable,
    flink_pairs,
    in_arguments,
    in_flink_configuration,
    in_spark_conf,
)
from queuegate_server.admission.server.webhook_limits import (
    MAX_PROPERTY_ENTRIES,
    MAX_PROPERTY_TEXT,
    MAX_PROPERTY_TEXTS,
)
from tests.support.rows import rows

QUEUE = "yunikorn.apache.org/queue"
LABELS = "kubernetes.jobmanager.labels"
ENTRIES = st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=4)


def flink(configuration: dict[str, Any]) -> list[tuple[str, str, object]]:
    """Return the map, the key and the value of each property; for an unreadable one, its reason."""
    return [
        (each.map_name, each.key, each.value)
        if isinstance(each, Property)
        else ("", each.stands_for, "")
        for each in in_flink_configuration(configuration, TextCount())
        if each
    ]


@rows
def test_entries_of_flink(text: str, expected: list[tuple[str, str]]) -> None:
    assert flink_pairs(text) == expected


@pytest.mark.parametrize("text", ["a", "a:b:c", "a:b,", "'a:b", "a'b:c", "'a'b:c", ""])
def test_what_flink_refuses(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - only the type counts
        flink_pairs(text)


@given(ENTRIES)
def test_quoted_entries_are_read_as_written(entries: list[tuple[str, str]]) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    text = ",".join(quoted(f"{quoted(key)}:{quoted(value)}") for key, value in entries)
    assert flink_pairs(text) == [(key.strip(), value.strip()) for key, value in entries]


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({LABELS: f"{QUEUE}:root.a"}, [("labels", QUEUE, "root.a")]),
        (
            {LABELS: f"app:x,'{QUEUE}:root.a'"},
            [("labels", "app", "x"), ("labels", QUEUE, "root.a")],
        ),
        ({LABELS: f"{{{QUEUE}: root.a}}"}, [("labels", QUEUE, "root.a")]),
        ({LABELS: f"a: b\n{QUEUE}: root.a"}, [("labels", QUEUE, "root.a")]),
        ({LABELS: f'"a: x,{QUEUE}:root.a"'}, [("", UNREADABLE, "")]),
        ({f"{LABELS}.{QUEUE}": "root.a"}, [("labels", QUEUE, "root.a")]),
        (
            {"kubernetes": {"taskmanager": {"annotations": {QUEUE: "root.a"}}}},
            [("annotations", QUEUE, "root.a")],
        ),
        ({"kubernetes.taskmanager": {"labels": f"{QUEUE}:a"}}, [("labels", QUEUE, "a")]),
        ({LABELS: 5}, [("", UNREADABLE, "")]),
        ({LABELS: "x" * (MAX_PROPERTY_TEXT + 1)}, [("", UNREADABLE, "")]),
        ({LABELS: ""}, []),
        ({LABELS: None}, []),
        ({"kubernetes.pod-template-file": "/opt/x"}, [("", FETCHED, "")]),
        ({"kubernetes": {"pod-template-file": {"jobmanager": "/x"}}}, [("", FETCHED, "")]),
        ({"kubernetes.pod-template-file.default": ""}, []),
        ({"taskmanager.numberOfTaskSlots": "2", "kubernetes.x": {"labels": "a:b"}}, []),
        ({"kubernetes.rest-service.annotations": f"{QUEUE}:a"}, []),
    ],
)
def test_flink(configuration: dict[str, Any], expected: list[tuple[str, str, object]]) -> None:
    reasons = {QUEUE, FETCHED, UNREADABLE}
    # Versions that do not read YAML see other keys in it.
    found = {each for each in flink(configuration) if each[1] in reasons}
    assert found == {each for each in expected if each[1] in reasons}


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=9))
def test_any_configuration_is_read(value: object) -> None:
    nested = {"jobmanager": {"labels": value}}
    list(in_flink_configuration({LABELS: value, "kubernetes": nested}, TextCount()))


@given(st.text(alphabet="'\",:{}[]&*a \n", max_size=200))
def test_any_text_is_read_or_unreadable(text: str) -> None:
    # Behind an empty map, Flink finds no labels, or an error.
    is_empty_map = re.match(r"[&a \n]*\{[ \n]*\}", text)
    assert flink({LABELS: text}) or not text or is_empty_map


def test_hostile_configurations_take_short_steps() -> None:
    """The names of nested maps are not joined if no property has such a name."""
    deep: dict[str, Any] = {f"{number}": "x" for number in range(10_000)}
    for name in ("k" * 100_000, "kubernetes.jobmanager.labels." + "k" * 100_000):
        start = time.process_time()
        steps = list(in_flink_configuration({name: deep}, TextCount()))
        assert steps == [None]
        assert time.process_time() - start < 5
    for text in ("'" * MAX_PROPERTY_TEXT, "[" * MAX_PROPERTY_TEXT, "{a: " * 1_000, "a:b," * 1_000):
        assert flink({LABELS: text})[0] == ("", UNREADABLE, "")


def test_the_texts_of_an_object_are_bounded() -> None:
    """Texts take longer than other members of the same length, and count as few entries."""
    for separator in (",", "\n"):
        longest = separator.join(f"k{number}: v" for number in range(MAX_PROPERTY_ENTRIES))
        assert ("labels", "k0", "v") in flink({LABELS: longest})
        assert flink({LABELS: f"{longest}{separator}k: v"}) == [("", UNREADABLE, "")]
    count = TextCount()
    for number in range(MAX_PROPERTY_TEXTS + 2):
        found = [each for each in in_flink_configuration({LABELS: "a:b"}, count) if each]
        assert isinstance(found[0], Unreadable) is (number >= MAX_PROPERTY_TEXTS)
        assert len(found) == 1


def spark(conf: dict[str, Any]) -> list[object]:
    return [each for each in in_spark_conf(conf) if each]


@rows
def test_templates_of_spark(name: str) -> None:
    assert spark({name: "http://x"}) == [Unreadable(name, FETCHED, "http://x")]
    assert spark({f"{name}=http://x": "y"}) == [
        Unreadable(f"{name}=http://x", FETCHED, "http://x=y")
    ]
    assert spark({name: ""}) == []
    assert spark({f"{name}s": "http://x"}) == []


def test_a_sign_ends_the_name_of_a_property() -> None:
    name = f"spark.kubernetes.driver.annotation.{QUEUE}=root.a"
    assert spark({name: 0}) == [Property(name, "annotations", QUEUE, "root.a=0")]


@rows
def test_arguments_that_are_options(specification: dict[str, Any], name: str) -> None:
    found = list(in_arguments(specification))
    assert [(each.name, each.stands_for) for each in found] == ([(name, OPTIONS)] if name else [])
