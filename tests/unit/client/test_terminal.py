"""Text that reaches a terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.cli.documents import to_json
from queuegate.cli.terminal import Colors, colors_for, escape, join_names, unlistable
from tests.support.rows import rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain text", "plain text"),
        ("CORP\\alice", "CORP\\alice"),
        ("Jürgen 日本", "Jürgen 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("nul\0del\x7f", "nul\\x00del\\x7f"),
        ("c1\x9b", "c1\\x9b"),
        ("turn\u202eround", "turn\\u202eround"),
        ("no\u200bwidth", "no\\u200bwidth"),
        ("half\udcff", "half\\udcff"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
    ids=ascii,
)
def test_escape(text: str, expected: str) -> None:
    assert escape(text) == expected


@given(st.text(st.characters()))
def test_escaped_text_is_one_printable_line(text: str) -> None:
    escaped = escape(text)
    assert escaped.isprintable()
    assert escape(escaped) == escaped


@given(st.text(st.characters()))
def test_json_is_plain_ascii(text: str) -> None:
    document = to_json({"name": text})
    assert document.isascii()
    assert document.replace("\n", "").isprintable()


@rows
def test_names_in_lists(names: list[str], joined: str, affected: str) -> None:
    assert join_names(names) == joined
    note = f"no ACL can list {affected}: commas and spaces separate names"
    assert unlistable(names) == (note if affected else "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "stream", "on"),
    [
        ({}, Terminal(), True),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({}, io.StringIO(), False),
    ],
    ids=["terminal", "NO_COLOR empty", "NO_COLOR", "dumb", "pipe"],
)
def test_colors_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], stream: io.StringIO, on: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colors_for(stream).on is on


def test_colors() -> None:
    assert Colors(on=True).good("yes") == "\x1b[32myes\x1b[0m"
    assert Colors(on=False).bad("no") == "no"
