"""findings.md: the findings of `validate` and `lint`, from their tables."""

from docs.generate.markdown import page, paragraph, table
from queuegate_server.formats.findings.table import SUBJECTS

_ABOUT = """
What `queuegate-server validate` and `lint` can say about a policy, by the identifier that
`-o json` and `-o sarif` show. Words in braces are filled in. Errors are marked; all others are
warnings. Errors in the syntax and structure of a file, and a few warnings about them, have no
identifier yet: in SARIF their rule is the name of the command.
"""


def generate() -> str:
    """Return the page."""
    parts = [paragraph(_ABOUT)]
    for subject, findings in SUBJECTS.items():
        rows = (
            (
                f"`{each.identifier}`" + (" (error)" if each.is_error else ""),
                _code(each.message),
                _code(each.remedy),
                each.source,
            )
            for each in findings.values()
        )
        parts += [f"## {subject}", table(("finding", "message", "remedy", "from"), rows)]
    return page("Findings", *parts)


def _code(text: str) -> str:
    """Return a template as code."""
    return f"`{text}`"
