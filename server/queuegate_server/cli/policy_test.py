"""`queuegate-server test`: runs policy tests."""

import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.cli.terminal import colors_for
from queuegate_server.cli import EXIT_FAILURE, EXIT_NO, output_formats
from queuegate_server.cli.command import FILE, STDIN, Failure
from queuegate_server.formats.diagnostics import printable

if TYPE_CHECKING:
    from queuegate_server.cli.policy_test_runner import PolicyTestOutcome

_PATTERNS: Final = ("*_test.yaml", "*_test.yml")


@click.command(
    "test",
    cls=DocumentedCommand,
    example="queuegate-server test policies",
    exit_statuses={
        0: "all tests passed",
        EXIT_NO: "a test failed",
        EXIT_FAILURE: "incorrect usage, no tests, or an unreadable or invalid file",
    },
)
@output_formats.output_option
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("--junit", type=FILE, help="Also write the results as JUnit XML.")
def policy_test(folders: tuple[str, ...], junit: Path | None, output: str) -> None:
    """Run the policy tests in each FOLDER, or in one file.

    The tests in a folder are all files under it whose names end in _test.yaml. A file names the
    policy, lists the users with their groups, and states for each request whether access is allowed
    and why. Needs no server or directory, because the groups in the file replace the resolver's
    groups. If a partition has no resolver, a server knows only the groups in requests. Tests of
    such a partition therefore send the groups from the file, and a note names the partition. A test
    about a queue that the policy does not define fails, unless its `evaluated_queue` names the
    queue that decides: an ancestor, or the queue itself if YARN will create it.
    """
    from queuegate_server.cli.policy_test_runner import run_file  # noqa: PLC0415 - slow

    # Silence the server's warnings, because this command reports the same problems.
    logging.getLogger("queuegate_server").setLevel(logging.ERROR)
    ran: list[PolicyTestOutcome] = []
    for file in _files(folders):
        outcomes, notes = run_file(file)
        if output == output_formats.TEXT:
            _print(file, outcomes)
        for note in notes:
            click.echo(f"note: {printable(note)}", err=True)
        ran += outcomes
    failures = [failure for each in ran for failure, _ in each.failures]
    checks = sum(each.checks for each in ran)
    summary = f"{_count(len(ran), 'test')}, {_count(checks, 'check')}: {len(failures)} failed"
    counts = {"tests": len(ran), "checks": checks, "failed": len(failures)}
    output_formats.write(output, "test", failures, text=[summary], more=counts)
    if junit is not None:
        _write_junit(junit, ran)
    sys.exit(EXIT_NO if failures else 0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _files(folders: Iterable[str]) -> Iterator[Path]:
    """Yield the test files, sorted within each folder. Raises Failure."""
    if STDIN in folders:
        raise Failure("-: tests must be in a file, since their policy's path is relative to it")
    for folder in map(Path, folders):
        if not folder.is_dir():
            yield folder
            continue
        files = sorted(path for pattern in _PATTERNS for path in folder.rglob(pattern))
        if not files:
            raise Failure(
                f"{folder}: contains no tests, which are files named {' or '.join(_PATTERNS)}"
            )
        yield from files


def _print(file: Path, outcomes: "Iterable[PolicyTestOutcome]") -> None:
    colors = colors_for(sys.stdout)
    click.echo(printable(str(file)))
    for each in outcomes:
        mark = colors.bad("✗") if each.failures else colors.good("✓")
        click.echo(f"  {mark} {printable(each.name)}")
        for failure, explanation in each.failures:
            click.echo(f"    {failure}")
            for line in explanation:
                click.echo(f"      {line}".rstrip())


def _write_junit(path: Path, ran: "list[PolicyTestOutcome]") -> None:
    suites = ET.Element("testsuites")
    for file in dict.fromkeys(each.file for each in ran):
        own = [each for each in ran if each.file == file]
        failed = sum(bool(each.failures) for each in own)
        suite = ET.SubElement(suites, "testsuite", name=printable(file), tests=str(len(own)))
        suite.attrib |= {"failures": str(failed), "errors": "0"}
        for each in own:
            case = ET.SubElement(suite, "testcase", name=printable(each.name))
            case.attrib |= {"classname": printable(file), "file": printable(file)}
            case.attrib |= {"line": str(each.line), "time": f"{each.seconds:.6f}"}
            if each.failures:
                texts = [str(failure) for failure, _ in each.failures]
                failure = ET.SubElement(case, "failure", message=printable(texts[0]))
                failure.text = "\n".join(texts)
    try:
        ET.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise Failure(f"{path}: cannot be written: {error.strerror or error}") from None
