"""Print a command's output or failure."""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import click

from queuegate.cli.documents import plain, to_json, to_table, to_yaml
from queuegate.cli.problems import Exit, Problem, problem_of
from queuegate.cli.terminal import escape

FORMATS: Final = ("text", "json", "yaml")
TABLE: Final = "table"
"""An output format supported only for lists."""

_WRITERS: Final = {"json": to_json, "yaml": to_yaml}


@dataclass(frozen=True, slots=True)
class Report:
    """A command's output, with its exit status."""

    document: Any
    """The output for `--output json` and `yaml`, as a dataclass or a mapping of plain values."""
    lines: Iterable[str]
    """The output for `--output text`."""
    status: Exit = Exit.OK
    problem: Problem | None = None
    """A problem to print after the output. Its exit status takes precedence."""
    note: str = ""
    """A note printed to standard error."""
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None
    """The headings and the rows for `--output table`."""


def print_answer(
    ask: Callable[[], Report],
    question: Mapping[str, Any],
    output: str,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Print a command's report or failure, and return the exit status.

    Args:
        ask: Runs the command.
        question: The arguments to repeat in JSON and YAML output.
        output: The format.
        arguments: All of the command's arguments, for error messages that quote them.
    """
    try:
        report = ask()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except click.UsageError:
        raise
    except Exception as error:
        return _print_problem(problem_of(error, arguments), question, output)
    status = report.problem.status if report.problem else report.status
    if output in _WRITERS:
        problem = _error(report.problem) if report.problem else {}
        document = _WRITERS[output]({**question, **plain(report.document), **problem})
        return _print([document]) or status
    lines = to_table(*report.table) if output == TABLE and report.table else report.lines
    failure = _print(lines)
    if report.note:
        sys.stderr.write(f"{escape(report.note)}\n")
    if report.problem and not failure:
        return _print_problem(report.problem, question, output)
    return failure or status


def wrong_usage(error: click.UsageError, arguments: Sequence[str]) -> int:
    """Print the command's usage and the error, and return the exit status."""
    if output := _requested_output(arguments):
        problem = Problem(Exit.WRONG, "WRONG_USAGE", error.format_message())
        return _print_problem(problem, {}, output)
    shown = io.StringIO()
    error.show(shown)
    lines = shown.getvalue().expandtabs(4).splitlines()
    sys.stderr.writelines(f"{escape(line)}\n" for line in lines)
    return Exit.WRONG


def _requested_output(arguments: Sequence[str]) -> str:
    """Return the machine-readable format that a command line requests, or "" if it requests none.

    This is needed because click discards the options of a command line that has a fault.
    """
    separator = "\0"  # no argument contains it
    value = rf"[{separator}=]?({'|'.join(_WRITERS)})"
    option = rf"(?:^|{separator})(?:-o|--output){value}(?:{separator}|$)"
    match = re.search(option, separator.join(arguments))
    return match[1] if match else ""


def _print_problem(problem: Problem, question: Mapping[str, Any], output: str) -> int:
    """Print a problem on the stream that suits the format, and return the exit status."""
    if output in _WRITERS:
        return _print([_WRITERS[output]({**question, **_error(problem)})]) or problem.status
    # Indent continuation lines to distinguish them from other messages.
    text = "\n  ".join(map(escape, problem.message.split("\n")))
    sys.stderr.write(f"Error: {text}\n")
    return problem.status


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "error": {
            "reason": problem.reason,
            "message": problem.message,
            "retry_after": problem.retry_after,
        }
    }


def _print(lines: Iterable[str]) -> int:
    """Print to standard output. Return 0, or an exit status if printing fails."""
    # Escape characters that the terminal's encoding lacks.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        # Redirect the stream, since the interpreter flushes it again at exit, when errors can no
        # longer be caught.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return Exit.BROKEN_PIPE
        sys.stderr.write(f"Error: cannot write the output: {error.strerror}\n")
        return Exit.NO_ANSWER
    return Exit.OK
