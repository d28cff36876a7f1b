"""A part of the benchmark that cannot be measured does not cost the figures of the others."""

import sys

import pytest

from bench import ghz, machine, run
from bench.command import CannotMeasure
from bench.report import ReportPart
from bench.results import Part


def _measured(name: str, *, is_quick: bool) -> ReportPart:
    assert is_quick
    if name == "columns":
        raise CannotMeasure("columns could not be measured")
    return ReportPart(f"measured {name}", Part([], [], [f"all about {name}"]))


def test_the_other_parts_are_measured_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--quick", "checks", "columns", "users"])
    monkeypatch.setattr(ghz, "find", lambda: None)
    monkeypatch.setattr(machine, "described", list)
    monkeypatch.setattr(run, "_run", _measured)
    with pytest.raises(SystemExit, match="columns could not be measured"):
        run.main()
    shown = capsys.readouterr().out
    assert "all about checks" in shown
    assert "all about users" in shown
