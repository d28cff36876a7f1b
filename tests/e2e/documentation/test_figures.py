"""The figures that pages quote are those of the benchmarks."""

import re
from pathlib import Path

NUMBER = re.compile(r"(?<![\d.,])\d+(?:,\d{3})*(?:\.\d+)?(?![\d,]*\d)")
QUOTED = re.compile(r"\b\d+(?:,\d{3})*,\d*[1-9]\d*\b|\b\d+\.\d\d(?= (?:ms|µs|s)\b)")
"""Numbers that are not round, or have a unit."""


def measured() -> set[str]:
    found = NUMBER.findall("".join(path.read_text() for path in Path("bench").glob("*.md")))
    rounded = {f"{float(number.replace(',', '')):,.0f}" for number in found if "." in number}
    return {*found, *rounded}


def test_figures_are_measured() -> None:
    pages = ("README.md", "docs/explanation/performance.md")
    quoted = {figure for page in pages for figure in QUOTED.findall(Path(page).read_text())}
    assert quoted
    assert sorted(quoted - measured()) == []


def test_the_commits_of_the_runs() -> None:
    page = Path("docs/explanation/performance.md").read_text()
    runs = re.findall(r"^\|.*\| ([0-9a-f]{7}) \|.*\[`(bench/\w+\.md)`\]", page, re.MULTILINE)
    assert len(runs) >= 5
    assert [run for run in runs if run[0] not in Path(run[1]).read_text()] == []
