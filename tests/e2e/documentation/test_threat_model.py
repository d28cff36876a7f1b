"""The threat model: each threat has kinds, a defence, a remaining risk, and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PAGE: Final = Path("docs/explanation/threat-model.md")
KINDS: Final = {
    "spoofing",
    "tampering",
    "repudiation",
    "information disclosure",
    "denial of service",
    "elevation of privilege",
}
THREAT: Final = re.compile(
    r"\*(?P<kinds>[^*]+)\.\* (?P<defence>.+?)\n\n"
    r"\*\*Remaining risk\*\*: (?P<remaining>.+?)\n\n"
    r"\*\*Shown by\*\*:(?P<shown_by>.+)",
    re.DOTALL,
)
TEST: Final = re.compile(r"- \[`(test_\w+\.py)::(test_\w+)`\]\((\S+)\)")


class Threat(NamedTuple):
    boundary: str
    title: str
    text: str


def threats() -> list[Threat]:
    found: list[Threat] = []
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        boundary, _, rest = part.partition("\n")
        for section in rest.split("\n### ")[1:]:
            title, _, text = section.partition("\n")
            found.append(Threat(boundary, title, text.strip()))
    return found


THREATS: Final = threats()


@cache
def functions_of(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_boundaries_and_threats() -> None:
    assert len({threat.boundary for threat in THREATS}) > 5
    assert len({threat.title for threat in THREATS}) == len(THREATS) > 30


@pytest.mark.parametrize("threat", THREATS, ids=lambda threat: threat.title)
def test_a_threat_is_complete(threat: Threat) -> None:
    found = THREAT.fullmatch(threat.text)
    assert found
    kinds = found["kinds"].lower().split(", ")
    assert set(kinds) <= KINDS
    assert len(set(kinds)) == len(kinds)
    shown_by = found["shown_by"].strip()
    if not shown_by.startswith("no test, because "):
        assert TEST.search(shown_by)
        assert TEST.sub("", shown_by).strip() == ""


def test_named_tests_exist() -> None:
    named = {found for threat in THREATS for found in TEST.findall(threat.text)}
    assert [
        f"{link}::{name}"
        for file, name, link in sorted(named)
        if Path(link).name != file
        or not (PAGE.parent / link).is_file()
        or name not in functions_of(PAGE.parent / link)
    ] == []
