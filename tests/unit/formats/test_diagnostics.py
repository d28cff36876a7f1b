"""Collecting diagnostics: bounded, in order, and on one line each."""

import gc

import pytest

from queuegate_server.formats import diagnostics as module
from queuegate_server.formats.diagnostics import (
    MAX_MESSAGE,
    MAX_PATH,
    Diagnostic,
    Diagnostics,
    TooManyErrors,
    printable,
    quoted,
)
from queuegate_server.formats.findings.finding import Finding, Severity
from queuegate_server.formats.registry import lint_policy, load_policy
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml

ERROR = Finding("e", Severity.ERROR, "e", "r")


def test_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DIAGNOSTICS", 1)
    diagnostics = Diagnostics("f")
    diagnostics.add(None, ERROR)
    for _ in range(2):
        with pytest.raises(TooManyErrors):
            diagnostics.add(None, ERROR)
    assert [str(diagnostic) for diagnostic in diagnostics.sorted()] == [
        "f: error: e (r)",
        (
            "f: error: more than 1 errors: the rest of the file was not checked "
            "(fix those above first)"
        ),
    ]


def test_errors_and_warnings_are_bounded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DIAGNOSTICS", 2)
    diagnostics = Diagnostics("f")
    for line in range(5, 0, -1):
        found = Finding("w", Severity.WARNING, f"w{line}", "r")
        diagnostics.add(ScalarNode(line, 1, "", plain=True), found)
    diagnostics.add(ScalarNode(9, 9, "", plain=True), ERROR)
    diagnostics.suppress_warnings(4)
    assert diagnostics.error_count == 1
    assert [str(diagnostic) for diagnostic in diagnostics.sorted()] == [
        "f:4:1: warning: w4 (r)",
        "f:5:1: warning: w5 (r)",
        "f:9:9: error: e (r)",
        "f: warning: 7 more warnings are not shown (fix those above first)",
    ]


def test_a_flood_of_errors_is_bounded() -> None:
    text = "partitions:\n  - queues: []\n" + "".join(f"    bad{i}: 1\n" for i in range(30_000))
    diagnostics = load_policy("yunikorn", text.encode(), "f").diagnostics
    assert len(diagnostics) == module.MAX_DIAGNOSTICS + 1
    assert diagnostics[0].message == "more than 10000 errors: the rest of the file was not checked"
    assert lint_policy("yunikorn", text.encode(), "f") == []


def test_a_flood_of_repeated_keys_ends_reading() -> None:
    text = "a: 1\n" * (module.MAX_DIAGNOSTICS + 5)
    document = read_yaml(text.encode(), "f")
    assert document.root is None
    assert len(document.diagnostics) == module.MAX_DIAGNOSTICS + 1


def test_a_flood_of_dropped_names_is_counted() -> None:
    names = "!," * (module.MAX_DIAGNOSTICS + 5)
    text = f"partitions: [{{queues: [{{name: root, submitacl: '{names} {names}'}}]}}]"
    diagnostics = load_policy("yunikorn", text.encode(), "f").diagnostics
    assert diagnostics[0].message == "10010 more warnings are not shown"
    assert len(diagnostics) == module.MAX_DIAGNOSTICS + 1


def test_a_name_that_is_too_long_is_not_repeated_below_it() -> None:
    queue = f"{{name: {'x' * 10_000}, queues: [{{name: a, submitacl: a b c}}]}}"
    text = f"partitions: [{{queues: [{{name: root, queues: [{queue}]}}]}}]"
    paths = {each.queue for each in load_policy("yunikorn", text.encode(), "f").diagnostics}
    assert paths == {f"root.{'x' * 100}", f"root.{'x' * 100}.a"}


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


@pytest.mark.parametrize("text", ["a\xa0b", "\x1b[31m", "\x85", "\ufeff", "\U000e0001"])
def test_a_name_is_escaped_in_one_form(text: str) -> None:
    assert printable(text) == quoted(text).strip('"')


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
    """Cycles would stay in memory until a collection that stops every thread."""
    found = []
    gc.disable()
    gc.freeze()  # what exists already need not be searched ten times
    try:
        for _ in range(5):
            gc.collect()
            load_policy(format_name, text.encode(), "f")
            lint_policy(format_name, text.encode(), "f")
            found.append(gc.collect())
    finally:
        gc.unfreeze()
        gc.enable()
    # Other threads, and what is done for the first time, leave some now and then.
    assert min(found) < 50


def test_texts_that_quote_too_much_are_shortened() -> None:
    found = Diagnostic("f", 1, 1, Severity.ERROR, "m" * 10_000, "r" * 10_000, "root." * 10_000)
    assert (found.message, found.remedy) == (f"{'m' * MAX_MESSAGE}…", f"{'r' * MAX_MESSAGE}…")
    assert len(found.queue) == MAX_PATH + 1
