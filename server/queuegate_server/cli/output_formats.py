"""Writes a command's findings in the format chosen with `--output`."""

import functools
import html
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import click

from queuegate.cli.documents import to_json
from queuegate_server.cli.command import Failure
from queuegate_server.formats.diagnostics import Diagnostic, printable
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import FINDINGS

TEXT: Final = "text"
JSON: Final = "json"
MARKDOWN: Final = "markdown"
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def output_option(
    command: Callable[..., None], *, with_markdown: bool = False
) -> Callable[..., None]:
    """Add `--output` to a command. Machine-readable formats also report failures.

    `with_markdown` adds a Markdown table format for pull requests.
    """
    formats = [TEXT, JSON, *([MARKDOWN] if with_markdown else []), "sarif", "github"]
    more = " a table for a pull request," if with_markdown else ""

    @click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=TEXT,
        show_default=True,
        help=f"The output format: for people, for programs,{more} for code scanning, or annotations"
        " on a GitHub job.",
    )
    @functools.wraps(command)
    def with_output(*, output: str, **arguments: Any) -> None:
        try:
            command(output=output, **arguments)
        except Failure as failure:
            name = click.get_current_context().info_name or ""
            if output in {TEXT, MARKDOWN}:
                raise
            write(output, name, failure.diagnostics, more={"error": {"message": failure.message}})
            if output == JSON:
                sys.exit(failure.exit_code)
            raise

    return with_output


output_option_with_markdown: Final = functools.partial(output_option, with_markdown=True)


def code(text: str) -> str:
    """Escape text and format it as code for a Markdown table cell."""
    escaped = html.escape(printable(text)).replace("|", "&#124;").replace("`", "&#96;")
    return f"<code>{escaped}</code>"


def write(
    output: str,
    command: str,
    diagnostics: Iterable[Diagnostic],
    *,
    text: Iterable[str] | None = None,
    markdown: Iterable[str] = (),
    document: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a command's findings to standard output.

    Args:
        output: The format.
        command: The command's name.
        diagnostics: The findings.
        text: The lines for the text format; by default, the diagnostics.
        markdown: The lines of the Markdown table.
        document: The JSON document; by default, an object that lists the diagnostics.
        more: Additional members for the default JSON document.
    """
    if output == TEXT:
        lines = map(str, diagnostics) if text is None else text
    elif output == MARKDOWN:
        lines = markdown
    elif output == "github":
        lines = (_annotation(command, each) for each in diagnostics)
    elif output == JSON:
        listed = [asdict(each) | {"finding": _kind(each)} for each in diagnostics]
        lines = [to_json(document or {"diagnostics": listed, **more})]
    else:
        lines = [to_json(_sarif(diagnostics))]
    for line in lines:
        click.echo(line)


def _kind(diagnostic: Diagnostic) -> str:
    """Return the identifier of a diagnostic's kind. The tables of findings contain it."""
    is_error = diagnostic.severity is Severity.ERROR
    return diagnostic.finding or ("invalid-setting" if is_error else "suspicious-setting")


def _annotation(command: str, diagnostic: Diagnostic) -> str:
    """Return the GitHub workflow command that shows the diagnostic as an annotation."""
    properties = {"file": diagnostic.file}
    if diagnostic.line:
        properties |= {"line": str(diagnostic.line), "col": str(diagnostic.column)}
    properties["title"] = f"queuegate {command}"
    written = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    kind = "notice" if diagnostic.severity is Severity.NOTE else diagnostic.severity
    return f"::{kind} {written}::{_escaped(_message(diagnostic))}"


def _message(diagnostic: Diagnostic) -> str:
    remedy = f" ({diagnostic.remedy})" if diagnostic.remedy else ""
    return f"{diagnostic.message}{remedy}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":  # `%` must be first because the escapes contain it
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _sarif(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    diagnostics = [*diagnostics]
    rules = dict.fromkeys(map(_kind, diagnostics))
    driver = {
        "name": "queuegate-server",
        "version": version("queuegate"),
        "rules": [*map(_rule, rules)],
    }
    results = [*map(_result, diagnostics)]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(identifier: str) -> dict[str, Any]:
    """Return the SARIF rule for a kind of finding."""
    finding = FINDINGS[identifier]
    return {
        "id": identifier,
        "shortDescription": {"text": finding.message},
        "fullDescription": {"text": f"{finding.message} (from: {finding.source})"},
        **({"help": {"text": finding.remedy}} if finding.remedy else {}),
        "defaultConfiguration": {"level": str(finding.severity)},
    }


def _result(diagnostic: Diagnostic) -> dict[str, Any]:
    path = Path(diagnostic.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if diagnostic.line:
        place["region"] = {"startLine": diagnostic.line, "startColumn": diagnostic.column}
    return {
        "ruleId": _kind(diagnostic),
        "level": str(diagnostic.severity),
        "message": {"text": _message(diagnostic)},
        "locations": [{"physicalLocation": place}],
    }
