"""The files of YARN's schedulers: errors with positions, bounds and warnings."""

from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import MAX_DIAGNOSTICS
from queuegate_server.formats.registry import FormatOptions, check_file, lint_policy, load_policy
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.xml_reader import MAX_DEPTH
from queuegate_server.formats.yarn import fair_scheduler
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CAPACITY, FAIR, prop


def test_deep_and_large_files_are_refused() -> None:
    deep = "<allocations>" + "<queue name='a'>" * 10_000
    assert f"more than {MAX_DEPTH} levels" in str(
        load_policy(FAIR, deep.encode(), "f").diagnostics[0]
    )
    large = b"<allocations>" + b" " * MAX_BYTES
    assert "larger than" in str(load_policy(FAIR, large, "f").diagnostics[0])


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        ("<allocations/>", FAIR),
        ("\ufeff <?xml version='1.0'?>\n<!-- a > b -->\n<!DOCTYPE c>\n<configuration/>", CAPACITY),
        ("<!-- <allocations> --><configuration>", CAPACITY),
        ("<other/>", FAIR),
        ("<<: {a: b}", "yunikorn"),
        ("partitions: []", "yunikorn"),
        ("<!-->" * 10_000, FAIR),
        ("<!--x>" * 10_000, FAIR),
        ("<?x>" * 10_000, FAIR),
        ("<!x>" * 10_000 + "<", FAIR),
    ],
)
def test_formats_are_detected_in_linear_time(text: str, format_name: str) -> None:
    """Even for texts that are made for backtracking."""
    assert detect_policy_format(text.encode()) == format_name


@pytest.mark.parametrize("names", ["a,b,", "a,,b", "a, b ,\n"])
def test_empty_names_in_a_list_of_queues_are_none(names: str) -> None:
    text = f"<configuration>{prop('yarn.scheduler.capacity.root.queues', names)}</configuration>"
    loaded = load_policy(CAPACITY, text.encode(), "f")
    assert loaded.diagnostics == ()
    assert set(loaded.partitions["default"].queues) == {"root", "root.a", "root.b"}


def test_names_of_queues_are_trimmed_as_java_does() -> None:
    names = prop("yarn.scheduler.capacity.root.queues", "\t a\n,\u00a0b")
    loaded = load_policy(CAPACITY, f"<configuration>{names}</configuration>".encode(), "f")
    assert set(loaded.partitions["default"].queues) == {"root", "root.a", "root.\u00a0b"}


def test_a_comment_is_no_part_of_an_acl() -> None:
    acl = "<aclSubmitApps>u<!-- v --> g</aclSubmitApps>"
    text = f"<allocations><queue name='a'>{acl}</queue></allocations>"
    loaded = load_policy(FAIR, text.encode(), "f")
    assert loaded.partitions["default"].queues["root.a"].submit_acl.text == "u g"


@pytest.mark.parametrize("queue", ["<queue name='a'>{}</queue>", "{}"])
def test_only_reported_elements_are_compared(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Mock(return_value="")
    monkeypatch.setattr(fair_scheduler, "similar_name", compare)
    elements = "".join(f"<x{number}/>" for number in range(MAX_DIAGNOSTICS + 5))
    load_policy(FAIR, f"<allocations>{queue.format(elements)}</allocations>".encode(), "f")
    assert compare.call_count == MAX_DIAGNOSTICS


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        (FAIR, f"<allocations>{'<queue/>' * 10_001}</allocations>"),
        (CAPACITY, f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("yarn-site", f"<configuration>{'<include/>' * 10_001}</configuration>"),
        ("spark-defaults", "spark.acls.enable maybe\n" * 10_001),
    ],
)
def test_too_many_errors_do_not_raise(format_name: str, text: str) -> None:
    found = check_file(format_name, text.encode(), "f", with_lint=True)
    assert any("more than 10000 errors" in diagnostic.message for diagnostic in found)
    if format_name in {FAIR, CAPACITY}:
        assert lint_policy(format_name, text.encode(), "f") == []


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_input_makes_a_loader_raise(data: bytes) -> None:
    for format_name in (FAIR, CAPACITY):
        for start in (b"", b"<allocations>", b"<configuration><property>"):
            load_policy(
                format_name, start + data, "f", FormatOptions(yarn=YarnOptions(site=(data, "s")))
            )
            lint_policy(format_name, start + data, "f")
    detect_policy_format(data)
