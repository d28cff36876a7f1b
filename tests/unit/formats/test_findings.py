"""Collecting findings: bounded, in order, and on one line each."""

import gc

import pytest

from queuegate_server.formats import diagnostic_list as module
from queuegate_server.formats.diagnostic_list import Findings, TooManyErrors, quoted
from queuegate_server.formats.lint import lint
from queuegate_server.formats.registry import load_policy
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yaml_tree import read


def test_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FINDINGS", 1)
    findings = Findings("f")
    findings.error(None, "e", "r")
    for _ in range(2):
        with pytest.raises(TooManyErrors):
            findings.error(None, "e", "r")
    assert [str(problem) for problem in findings.in_order()] == [
        "f: error: e (r)",
        "f: error: more than 1 errors: the rest of the file was not checked (repair those above)",
    ]


def test_errors_and_warnings_are_bounded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FINDINGS", 2)
    findings = Findings("f")
    for line in range(5, 0, -1):
        findings.warning(Scalar(line, 1, "", plain=True), f"w{line}", "r")
    findings.error(Scalar(9, 9, "", plain=True), "e", "r")
    findings.count_warnings(4)
    assert findings.error_count == 1
    assert [str(problem) for problem in findings.in_order()] == [
        "f:4:1: warning: w4 (r)",
        "f:5:1: warning: w5 (r)",
        "f:9:9: error: e (r)",
        "f: warning: 7 more warnings are not shown (repair those above)",
    ]


def test_a_flood_of_faults_fills_no_memory() -> None:
    text = "partitions:\n  - queues: []\n" + "".join(f"    bad{i}: 1\n" for i in range(30_000))
    problems = load_policy("yunikorn", text.encode(), "f").problems
    assert len(problems) == module.MOST_FINDINGS + 1
    assert problems[0].message == "more than 10000 errors: the rest of the file was not checked"
    assert lint("yunikorn", text.encode(), "f") == []


def test_a_flood_of_repeated_keys_ends_the_reading() -> None:
    text = "a: 1\n" * (module.MOST_FINDINGS + 5)
    document = read(text.encode(), "f")
    assert document.root is None
    assert len(document.problems) == module.MOST_FINDINGS + 1


def test_a_flood_of_dropped_names_is_counted() -> None:
    names = "!," * (module.MOST_FINDINGS + 5)
    text = f"partitions: [{{queues: [{{name: root, submitacl: '{names} {names}'}}]}}]"
    problems = load_policy("yunikorn", text.encode(), "f").problems
    assert problems[0].message == "10010 more warnings are not shown"
    assert len(problems) == module.MOST_FINDINGS + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sue", '"sue"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("é", '"é"'),
        ("a\n\x1b[31m", '"a\\n\\u001b[31m"'),
        ("\u2028\u202e", '"\\u2028\\u202e"'),
        ("x" * 200, '"' + "x" * 100 + '…"'),
    ],
)
def test_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected


QUEUE = "<queue name='q'/>"
ROWS = "".join(f"      - name: q{i}\n        queues: [{{name: x}}]\n" for i in range(100))


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("yunikorn", f"partitions:\n  - queues:\n{ROWS}"),
        ("yunikorn", f"partitions:\n  - queues:\n{ROWS}*"),
        ("fair-scheduler", f"<allocations>{QUEUE * 100}</allocations>"),
        ("fair-scheduler", f"<allocations>{QUEUE * 100}"),
        ("capacity-scheduler", f"<configuration>{'<property/>' * 100}</configuration>"),
    ],
)
def test_a_document_leaves_no_cycles_behind(format_name: str, text: str) -> None:
    """They would stay until the collector stops every thread to find them."""
    found = []
    gc.disable()
    try:
        for _ in range(5):
            gc.collect()
            load_policy(format_name, text.encode(), "f")
            lint(format_name, text.encode(), "f")
            found.append(gc.collect())
    finally:
        gc.enable()
    # Other threads, and what is done for the first time, leave some now and then.
    assert min(found) < 50
