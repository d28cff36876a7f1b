"""`queuegate-server audit verify`: follows the hash chain of audit logs."""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import BinaryIO

import click

from queuegate_server.cli import EXIT_FAILURE, EXIT_NO
from queuegate_server.cli.command import STDIN, shown_name, unreadable
from queuegate_server.files.safe_open import open_regular
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.observe.audit_chain import ChainBroken, ChainVerifier


def _hashes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[bytes]:
    for value in values:
        if not re.fullmatch("[0-9a-f]{64}", value):
            raise click.BadParameter(f"{value!r}: not the hash of a record: 64 digits of 0-9a-f")
    return frozenset(value.encode() for value in values)


@click.group()
def audit() -> None:
    """Check audit logs."""


@audit.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="HASH",
    callback=_hashes,
    help="A hash that was printed or logged earlier; fails unless a chain contains it. Repeatable.",
)
def verify(*, files: tuple[str, ...], expected: frozenset[bytes]) -> None:
    """Verify the hash chain of each audit log FILE, written with `audit.chain: true`.

    The rotated files FILE.1, FILE.2 and so on are read before it, oldest first, as one chain.
    For files with other names, give them all, oldest first, on standard input: cat OLD NEW |
    queuegate-server audit verify -

    Prints which records are intact, and the last hash; or, as file:line, the first record that
    was changed, inserted or moved, or that follows missing ones. Only --expect detects a log
    that was rewritten as a whole or cut off at the end: keep the last hash where nobody who can
    write the log can change it.

    Exit status: 0 all intact, 1 a chain is broken or an expected hash is missing, 2 wrong
    usage or a file that cannot be read.
    """
    seen: set[bytes] = set()
    status = 0
    for file in files:
        verifier = ChainVerifier(expected)
        status = max(status, _verify(file, verifier))
        seen |= verifier.seen
    for missing in sorted(expected - seen):
        click.echo(f"error: no record has the hash {missing.decode()}")
        status = max(status, EXIT_NO)
    sys.exit(status)


def _verify(log: str, verifier: ChainVerifier) -> int:
    """Follow the chain of one audit log, and print how far it goes; return the exit status."""
    name = shown_name(log)
    try:
        with contextlib.ExitStack() as opened:
            *older, newest = _open(log, opened)
            for each in older:
                verifier.read(*each, is_newest=False)
            verifier.read(*newest, is_newest=True)
    except ChainBroken as error:
        click.echo(str(Diagnostic(error.file, error.line, 1, Severity.ERROR, str(error))))
        return EXIT_NO
    except OSError as error:
        click.echo(str(unreadable(error.filename or log, error)), err=True)
        return EXIT_FAILURE
    if verifier.is_torn:
        click.echo(f"note: {name}: ends in an incomplete record, which is ignored", err=True)
    if not verifier.first:
        click.echo(f"{name}: no records")
        return 0
    sequence, last = verifier.last
    span = f"records {verifier.first} to {sequence} are intact"
    click.echo(f"{name}: {span}; the hash of the last one is {last.decode()}")
    return 0


def _open(log: str, opened: contextlib.ExitStack) -> list[tuple[str, BinaryIO]]:
    """Return the names and contents of the files of an audit log, the oldest first.

    All are open before the first is read, so that a rotation meanwhile takes none away. Raises
    OSError.
    """
    if log == STDIN:
        return [(shown_name(log), sys.stdin.buffer)]
    path = Path(log)
    rotated = re.compile(re.escape(path.name) + r"\.([1-9]\d*)")
    found = [rotated.fullmatch(each.name) for each in path.parent.iterdir()]
    numbers = sorted(int(match[1]) for match in found if match)
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in numbers)]
    if numbers and not path.exists():  # the server ended between a rotation's two steps
        del names[0]
    files: list[tuple[str, BinaryIO]] = []
    for each in names:
        stream = opened.enter_context(open_regular(each))
        # A file that was rotated since the last one was opened is that one again.
        stat = os.fstat(stream.fileno())
        if not files or not os.path.samestat(stat, os.fstat(files[-1][1].fileno())):
            files.append((str(each), stream))
    return files[::-1]
