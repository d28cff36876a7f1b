"""Rewords PyYAML's syntax errors for people who write policies."""

from typing import Any

import yaml

from queuegate_server.formats.diagnostics import ParseError
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import split_lines
from queuegate_server.formats.yaml_builder import position


def syntax_error(error: yaml.YAMLError, text: str) -> ParseError:
    """Return the error to report for a PyYAML error in `text`."""
    if not isinstance(error, yaml.MarkedYAMLError) or not (
        error.problem_mark or error.context_mark
    ):
        return ParseError(None, finding("invalid-yaml", why=error))
    mark = error.problem_mark or error.context_mark
    context = error.context or ""
    if "alias" in context and error.context_mark:
        return ParseError(position(error.context_mark), finding("unquoted-wildcard"))
    return ParseError(position(mark), _fault(error, context, mark, text))


def _fault(error: yaml.MarkedYAMLError, context: str, mark: Any, text: str) -> Finding:
    """Return the finding for the text at a mark.

    PyYAML's errors can be told apart only by their wording. If the wording is unknown, the last
    finding quotes it.
    """
    lines = split_lines(text)
    rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    if rest.startswith("\t"):
        return finding("tab")
    if rest.startswith("?") and " flow " in context:
        return finding("question-mark-in-word")
    if error.problem == "found unexpected ':'":
        return finding("colon-after-word")
    why = f"{error.problem}"
    if context:
        why = f"{why}, {context}"
        if error.context_mark and error.context_mark.line != mark.line:
            why = f"{why} that starts on line {error.context_mark.line + 1}"
    return finding("invalid-yaml", why=why)
