"""findings.md: what the commands of `queuegate-server` can find, from the tables of findings."""

from docs.generate.markdown import page, paragraph, table
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import SUBJECTS

_ABOUT = """
This page lists what `queuegate-server` can find in a policy, in settings, in a change and in
tests, by the identifier that `-o json` and `-o sarif` show. Words in braces are placeholders.
Errors and notes are marked; all others are warnings. The last table lists kinds of findings whose
messages vary from case to case.
"""


def generate() -> str:
    """Return the page."""
    parts = [paragraph(_ABOUT)]
    for subject, findings in SUBJECTS.items():
        rows = (
            (
                f"`{each.identifier}`" + _marked(each.severity),
                _code(each.message),
                _code(each.remedy),
                each.source,
            )
            for each in findings.values()
        )
        parts += [f"## {subject}", table(("finding", "message", "remedy", "from"), rows)]
    return page("Findings", *parts)


def _marked(severity: Severity) -> str:
    return "" if severity is Severity.WARNING else f" ({severity})"


def _code(text: str) -> str:
    """Return a template as code."""
    quote = "``" if "`" in text else "`"
    return f"{quote}{text}{quote}" if text else ""
