"""Reports of `make audit` about the answers of pip-audit."""

import subprocess
from typing import Any

import pytest

from tests.e2e.packaging import audit
from tests.e2e.packaging.locks import pinned

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "status", "message"),
    [
        ([CLEAN], 0, "1 packages, 0 vulnerable, 0 not known"),
        ([CLEAN, BAD, SKIPPED], 1, "b 2: PYSEC-1, fixed in: 3"),
        ([SKIPPED], 0, "nothing was audited"),
        ([], 0, "nothing was audited"),
    ],
)
def test_report(
    capsys: pytest.CaptureFixture[str], found: list[dict[str, Any]], status: int, message: str
) -> None:
    assert audit.report(found) == status
    assert message in capsys.readouterr().out


@pytest.mark.parametrize("output", ["", "no JSON", "timeout"])
def test_an_index_that_does_not_answer_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    def run(command: list[str], **_: object) -> object:
        if output == "timeout":
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1, stdout=output)

    monkeypatch.setattr(subprocess, "run", run)
    assert audit.main() == 0
    assert "nothing was audited" in capsys.readouterr().out


def test_the_first_requirement_is_whole() -> None:
    first = audit.first_requirement(audit.LOCK.read_text(encoding="utf-8"))
    assert first.count("==") == 1
    assert "--hash=sha256:" in first
    assert not first.rstrip().endswith("\\")
    assert first.partition("==")[0] in pinned(audit.LOCK)
