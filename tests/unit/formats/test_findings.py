"""The tables of findings: identifiers, fields, and a test that shows each message."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Final

from queuegate_server.formats.findings.finding import Finding, Severity
from queuegate_server.formats.findings.table import FINDINGS, PHRASES, SUBJECTS

EVERY: Final = [each for findings in SUBJECTS.values() for each in findings.values()]
SERVER: Final = [*Path("server/queuegate_server").rglob("*.py")]
SHOWN_IN: Final = ("tests/cases", "tests/unit", "tests/integration/ldap")
PARTS: Final = re.compile(r'"\s*\n\s*f?"')
"""What stands between the parts of a text that Python joins."""


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `finding` that name a finding, with their places."""
    for path in SERVER:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "finding"
                and isinstance(node.args[0], ast.Constant)
            ):
                yield f"{path}:{node.lineno}", node


def test_each_identifier_stands_once() -> None:
    assert len(FINDINGS) == len(EVERY)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", each) for each in FINDINGS)


def test_each_finding_has_a_remedy_and_a_source() -> None:
    lacking = [
        each.identifier
        for each in EVERY
        if not each.source or bool(each.remedy) is (each.severity is Severity.NOTE)
    ]
    assert lacking == []


def test_calls_give_each_field_of_a_finding() -> None:
    checked = 0
    for place, call in calls():
        identifier = ast.literal_eval(call.args[0])
        assert identifier in FINDINGS, place
        given = {each.arg for each in call.keywords if each.arg}
        if len(given) == len(call.keywords):
            found = FINDINGS[identifier]
            # A remedy that is given may be empty, and then the table's is used.
            assert fields(found.message) | fields(found.remedy) <= given, place
            checked += 1
    assert checked > len(FINDINGS) / 2


def test_each_finding_is_used() -> None:
    used = {
        node.value
        for path in SERVER
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert FINDINGS.keys() - used == set()


def test_a_test_shows_each_message() -> None:
    texts = (
        PARTS.sub("", path.read_text(encoding="utf-8"))
        for folder in SHOWN_IN
        for path in Path(folder).rglob("*.*")
        if path.suffix in {".txt", ".yaml", ".py"}
    )
    shown = "\n".join(texts).replace('\\"', '"')
    assert [each.identifier for each in EVERY if not is_shown(each, shown)] == []


def is_shown(finding: Finding, shown: str) -> bool:
    parts = [text.strip() for text, *_ in Formatter().parse(finding.message)]
    return max(parts, key=len) in shown


def test_no_remedy_stands_twice() -> None:
    """A remedy that several findings share is a phrase."""
    remedies = Counter(each.remedy for each in EVERY if each.remedy.count(" ") > 1)
    shared = [*PHRASES.values()]
    assert [each for each, count in remedies.items() if count > 1 and each not in shared] == []
