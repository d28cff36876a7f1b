"""`queuegate-server validate`, `lint`, `diff` and `convert`: commands that only read files."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import click

from queuegate.policy.acl import EMPTY, Acl
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition, Queue
from queuegate_server.cli import EXIT_FAILURE, EXIT_NO
from queuegate_server.cli.command import (
    FILE,
    STDIN,
    Failure,
    read_file,
    read_or_fail,
    reading_options,
    resolver_types_option,
    shown_name,
)
from queuegate_server.files.safe_open import remedy
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors, quoted
from queuegate_server.formats.registry import (
    FILE_FORMATS,
    YUNIKORN,
    FormatOptions,
    check_file,
    detect_file_format,
    detect_format,
    load_policy,
)
from queuegate_server.formats.yarn.convert import convert as convert_to_yunikorn
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.transports.registry import choose

_Command = TypeVar("_Command", bound=Callable[..., None])


def _checking_options(command: _Command) -> _Command:
    for decorate in (
        resolver_types_option,
        click.option(
            "--format",
            "format_name",
            type=click.Choice(sorted(FILE_FORMATS)),
            help="The format of the files. [default: detected from their content]",
        ),
        click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    ):
        command = decorate(command)
    return command


@click.command()
@reading_options
@_checking_options
@click.option(
    "--settings",
    "are_settings",
    is_flag=True,
    help="Each FILE is the server's own configuration (queuegate.yaml), not a policy.",
)
def validate(
    *,
    files: tuple[str, ...],
    format_name: str | None,
    are_settings: bool,
    options: FormatOptions,
) -> None:
    """Check whether the server would load the policy in each FILE (- is standard input).

    FILE may also be a spark-defaults.conf or a yarn-site.xml.

    With --settings each FILE is a queuegate.yaml. Its keys and values are checked, and so are
    the filters, names and addresses of directories, and the files that it names.

    Needs no server. Prints each diagnostic as file:line:column: level: message (remedy)
    on standard output, and a summary on standard error. Warnings, such as names that
    an ACL does not accept, leave a policy valid.

    Exit status: 0 all valid, 1 an error in a policy, 2 wrong usage or a file that
    cannot be read.
    """
    check = _check_settings
    if not are_settings:
        check = functools.partial(_check_policy, format_name, options, with_lint=False)
    sys.exit(_report(files, check, warnings_fail=False))


@click.command()
@reading_options
@_checking_options
def lint(
    *,
    files: tuple[str, ...],
    format_name: str | None,
    options: FormatOptions,
) -> None:
    """Find what is valid but probably not meant in each FILE (- is standard input).

    Reports what validate reports, and also such things as a list of groups whose
    leading blank YAML dropped. Needs no server. Prints each diagnostic as
    file:line:column: level: message (remedy) on standard output, and a summary on
    standard error.

    Exit status: 0 no diagnostic, 1 a diagnostic, 2 wrong usage or a file that cannot be read.
    """
    check = functools.partial(_check_policy, format_name, options, with_lint=True)
    sys.exit(_report(files, check, warnings_fail=True))


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@reading_options
@resolver_types_option
def diff(*, old: str, new: str, options: FormatOptions) -> None:
    """Show what changes in the ACLs of queues from the policy OLD to the policy NEW.

    Needs no server. One of the two may be - for standard input. Prints a line for each
    partition or queue that was added or removed, and for each ACL that lets in others than
    before: + for those it now lets in, - for those it no longer does. Each queue's own ACLs
    are compared; what the queues above grant still applies. Both files must be YuniKorn's, or
    both YARN's.

    Exit status: 0 no difference, 1 a difference, 2 wrong usage, or a file that cannot be
    read or is not valid.
    """
    if old == new == STDIN:
        raise Failure("only one of the two can be standard input")
    (old_is_yunikorn, before), (new_is_yunikorn, after) = (_load(old, options), _load(new, options))
    if old_is_yunikorn is not new_is_yunikorn:
        # Names of queues compare differently, and YARN has administrators of the cluster.
        raise Failure("one file is YuniKorn's and the other YARN's: convert one of them first")
    lines = list(_differences(before, after))
    for line in lines:
        click.echo(line)
    sys.exit(EXIT_NO if lines else 0)


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--to",
    type=click.Choice([YUNIKORN]),
    default=YUNIKORN,
    show_default=True,
    expose_value=False,
    help="The format to write.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(sorted(SCHEDULERS)),
    help="The format of the file. [default: detected from its content]",
)
@reading_options
@click.option(
    "--daemon-user",
    default="",
    metavar="USER",
    help="The user that the ResourceManager runs as, always an administrator of the cluster.",
)
@click.option(
    "--output",
    type=FILE,
    help="The file to write. [default: standard output]",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def convert(
    *,
    file: str,
    format_name: str | None,
    output: Path | None,
    force: bool,
    options: FormatOptions,
) -> None:
    """Write the queues of a YARN cluster as a queues.yaml of YuniKorn.

    FILE (- is standard input) is a fair-scheduler.xml or a capacity-scheduler.xml. Each user
    may submit to and administer the same queues as before. What YuniKorn cannot express
    grants less, and is reported on standard error with file, line and column.

    Exit status: 0 the same access, 1 written, but something cannot be expressed, 2 wrong
    usage, or a file that cannot be read, converted or written.
    """
    data, name = read_or_fail(file)
    detected = format_name or detect_format(data)
    if detected not in SCHEDULERS:
        raise Failure(f"{name}: this is not the file of a YARN scheduler")
    result = convert_to_yunikorn(
        detected, data, name, options.yarn, options.acl_names_of(DEFAULT_PARTITION)
    )
    for diagnostic in (*result.diagnostics, *result.lost):
        click.echo(str(diagnostic), err=True)
    if not result.text:
        sys.exit(EXIT_FAILURE)
    _write(result.text, output, force=force)
    for remark in result.remarks:
        click.echo(f"note: {remark}", err=True)
    sys.exit(EXIT_NO if result.lost else 0)


def _check_policy(
    format_name: str | None, options: FormatOptions, data: bytes, name: str, *, with_lint: bool
) -> list[Diagnostic]:
    format_name = format_name or detect_file_format(data)
    return check_file(format_name, data, name, options, with_lint=with_lint)


def _check_settings(data: bytes, name: str) -> Iterable[Diagnostic]:
    try:
        settings = load_settings(Path(name), content=data)
    except SettingsError as error:
        return error.diagnostics
    return [Diagnostic(name, 0, 0, Severity.ERROR, text) for text in _startup_errors(settings)]


def _startup_errors(settings: Settings) -> Iterator[str]:
    """Yield why a server with these settings could not listen."""
    try:
        choose(settings.transport, settings.listen, settings.limits.connections)
    except CannotListen as error:
        yield str(error)
    if settings.callers.token_file or any(each.tls for each in settings.listen):
        # Slow, and seldom needed.
        from queuegate_server.server.listeners import unusable_files  # noqa: PLC0415

        yield from unusable_files(settings)


def _load(file: str, options: FormatOptions) -> tuple[bool, Mapping[str, Partition]]:
    """Return whether a policy is YuniKorn's, and its partitions. Raises Failure."""
    data, name = read_or_fail(file)
    format_name = detect_format(data)
    loaded = load_policy(format_name, data, name, options)
    if has_errors(loaded.diagnostics):
        for diagnostic in loaded.diagnostics:
            click.echo(str(diagnostic), err=True)
        raise Failure(f"{name}: not valid")
    return format_name == YUNIKORN, loaded.partitions


def _differences(old: Mapping[str, Partition], new: Mapping[str, Partition]) -> Iterator[str]:
    """Yield the differences, partitions and queues in order.

    ACLs are compared by what they mean: order, repetitions and names that grant nothing do
    not count. A queue without an ACL and one that lists nobody are alike.
    """
    for name in sorted({*old, *new}):
        where = f"partition {quoted(name)}"
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield f"{where}: {'added' if before is None else 'removed'}"
        elif before.resolver_type != after.resolver_type:
            types = quoted(before.resolver_type), quoted(after.resolver_type)
            yield f"{where}: usergroupresolver: {types[0]} becomes {types[1]}"
        yield from _of_queues(where, before.queues if before else {}, after.queues if after else {})


def _of_queues(where: str, old: Mapping[str, Queue], new: Mapping[str, Queue]) -> Iterator[str]:
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        queue = f"{where}, queue {quoted(path)}"
        if before is None or after is None:
            yield f"{queue}: {'added' if before is None else 'removed'}"
        for kind, was, now in (
            ("submit", before and before.submit_acl, after and after.submit_acl),
            ("admin", before and before.admin_acl, after and after.admin_acl),
        ):
            changes = ", ".join(_changes(was or EMPTY, now or EMPTY))
            if changes:
                yield f"{queue}: {kind} ACL: {changes}"


def _changes(old: Acl, new: Acl) -> Iterator[str]:
    if old.allows_all is not new.allows_all:
        yield f"{'+' if new.allows_all else '-'} everybody"
    for kind, was, now in (
        ("user", old.users, new.users),
        ("group", old.groups, new.groups),
        ("proxy", old.proxies, new.proxies),
    ):
        for sign, names in (("+", now - was), ("-", was - now)):
            yield from (f"{sign} {kind} {quoted(name)}" for name in sorted(names))


def _report(
    files: tuple[str, ...],
    check: Callable[[bytes, str], Iterable[Diagnostic]],
    *,
    warnings_fail: bool,
) -> int:
    """Print the diagnostics of all files, and a summary on stderr; return the exit status."""
    found: list[Diagnostic] = []
    is_readable = True
    for file in files:
        name = shown_name(file)
        try:
            data = read_file(file)
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            found.append(Diagnostic(name, 0, 0, Severity.ERROR, message, remedy(error)))
            click.echo(str(found[-1]), err=True)
            is_readable = False
            continue
        diagnostics = list(check(data, name))
        for diagnostic in diagnostics:
            click.echo(str(diagnostic))
        found += diagnostics
    click.echo(_summary(len(files), found), err=True)
    if not is_readable:
        return EXIT_FAILURE
    return EXIT_NO if has_errors(found) or (warnings_fail and found) else 0


def _summary(files: int, found: list[Diagnostic]) -> str:
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic in found)
    return ", ".join(
        f"{number} {noun}{'' if number == 1 else 's'}"
        for number, noun in ((files, "file"), (errors, "error"), (len(found) - errors, "warning"))
    )


def _write(text: str, output: Path | None, *, force: bool) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise Failure(f"{output}: exists; --force overwrites it") from None
    except OSError as error:
        message = f"{output}: cannot be written: {error.strerror or error}"
        raise Failure(message) from None
