"""Invariants of the diagnostics of any text."""

from collections.abc import Sequence

from queuegate_server.formats.diagnostics import Diagnostic, sort_diagnostics


def judge_diagnostics(diagnostics: Sequence[Diagnostic], file: str) -> None:
    """Each names its place, the fault and the remedy on one line; they are sorted."""
    assert list(diagnostics) == sort_diagnostics(diagnostics)
    for diagnostic in diagnostics:
        assert diagnostic.message
        assert diagnostic.remedy
        assert (diagnostic.line > 0) is (diagnostic.column > 0)
        text = str(diagnostic)
        assert text.startswith(file)
        assert text.isprintable()
