"""The tables of findings: identifiers, fields, and a golden case for each entry."""

import re
from pathlib import Path
from string import Formatter
from typing import Final

import pytest

from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import FINDINGS, SUBJECTS

EVERY: Final = [each for findings in SUBJECTS.values() for each in findings.values()]
SHOWN: Final = "\n".join(
    {
        line
        for path in Path("tests/cases").rglob("*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
        if ": warning: " in line or ": error: " in line
    }
)


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_each_identifier_stands_once() -> None:
    assert len(FINDINGS) == len(EVERY)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in FINDINGS)


@pytest.mark.parametrize("finding", EVERY, ids=lambda each: each.identifier)
def test_each_finding_is_in_a_golden_case(finding: Finding) -> None:
    literal = (re.escape(text) for text, *_ in Formatter().parse(finding.message))
    message = ".*".join(literal) if fields(finding.message) else re.escape(finding.message)
    severity = "error" if finding.is_error else "warning"
    assert re.search(rf"\d: {severity}: (?:.*; |.*: )?{message}", SHOWN), finding.message
    assert finding.remedy
    assert finding.source


def test_no_remedy_stands_twice() -> None:
    """A remedy that several findings share is a phrase."""
    formats = Path("server/queuegate_server/formats").rglob("*.*")
    files = (path for path in formats if path.suffix in {".py", ".toml"})
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    text = re.sub(r'"""\\\n|"""', '"', text).replace(" \\\n", " ")
    remedies = {each.remedy for each in EVERY if each.remedy.count(" ") > 1}
    repeated = [each for each in remedies if text.count(f'"{each}"') > 1 and not fields(each)]
    assert repeated == []
