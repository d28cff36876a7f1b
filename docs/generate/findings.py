"""findings.md: the findings of `validate` and `lint`, from their tables."""

from docs.generate.markdown import page, paragraph, table
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import SUBJECTS

_ABOUT = """
What `queuegate-server validate` and `lint` can say about a policy, by the identifier that
`-o json` and `-o sarif` show. Words in braces are filled in. Errors and notes are marked; all
others are warnings. What concerns no file of a policy, such as the server's settings, has no
identifier: in SARIF its rule is the name of the command.
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
