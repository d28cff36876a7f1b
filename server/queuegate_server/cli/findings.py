"""Writes diagnostics in the formats of `--output`, for people, programs and GitHub."""

import functools
import html
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from queuegate.cli.documents import to_json
from queuegate_server.cli.command import Failure
from queuegate_server.formats.diagnostics import Diagnostic, Severity, printable

TEXT: Final = "text"
JSON: Final = "json"
MARKDOWN: Final = "markdown"
_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def output_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--output`. Its formats for programs also apply to a failure of the command."""
    return _output_option(command, [TEXT, JSON, "sarif", "github"], "")


def output_option_with_markdown(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--output` with an additional format: a table for a pull request comment."""
    formats = [TEXT, JSON, MARKDOWN, "sarif", "github"]
    return _output_option(command, formats, " a table for a pull request,")


def _output_option(
    command: Callable[..., None], formats: list[str], more: str
) -> Callable[..., None]:
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
            if output == JSON:
                write(output, name, failure.diagnostics, {"error": {"message": failure.message}})
                sys.exit(failure.exit_code)
            if output not in {TEXT, MARKDOWN}:
                write(output, name, failure.diagnostics, {})
            raise

    return with_output


def code(text: str) -> str:
    """Return text from a file as code in a Markdown table cell."""
    escaped = html.escape(printable(text)).replace("|", "&#124;").replace("`", "&#96;")
    return f"<code>{escaped}</code>"


def write(
    output: str, command: str, diagnostics: Iterable[Diagnostic], more: Mapping[str, Any]
) -> None:
    """Write diagnostics to standard output.

    Args:
        output: The format.
        command: The name of the command, used as the rule in SARIF.
        diagnostics: The diagnostics.
        more: Additional members of a JSON document.
    """
    if output == TEXT:
        for diagnostic in diagnostics:
            click.echo(str(diagnostic))
    elif output == "github":
        for diagnostic in diagnostics:
            click.echo(_annotation(command, diagnostic))
    elif output == JSON:
        document = {"diagnostics": [asdict(each) for each in diagnostics], **more}
        click.echo(to_json(document))
    else:
        click.echo(to_json(_sarif(command, diagnostics)))


def _annotation(command: str, diagnostic: Diagnostic) -> str:
    """Return a workflow command, escaped for GitHub's runner."""
    properties = {"file": diagnostic.file}
    if diagnostic.line:
        properties |= {"line": str(diagnostic.line), "col": str(diagnostic.column)}
    properties["title"] = f"queuegate {command}"
    written = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    text = (
        f"{diagnostic.message} ({diagnostic.remedy})" if diagnostic.remedy else diagnostic.message
    )
    return f"::{diagnostic.severity} {written}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":  # the percent sign first
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _sarif(command: str, diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    rule = {"id": command, "shortDescription": {"text": f"queuegate-server {command}"}}
    driver = {
        "name": "queuegate-server",
        "version": version("queuegate"),
        "rules": [rule],
    }
    results = [_result(command, each) for each in diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(command: str, diagnostic: Diagnostic) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(diagnostic.file)}}
    if diagnostic.line:
        place["region"] = {"startLine": diagnostic.line, "startColumn": diagnostic.column}
    text = (
        f"{diagnostic.message} ({diagnostic.remedy})" if diagnostic.remedy else diagnostic.message
    )
    return {
        "ruleId": command,
        "level": "error" if diagnostic.severity is Severity.ERROR else "warning",
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
