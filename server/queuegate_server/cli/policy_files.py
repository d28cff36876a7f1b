"""`queuegate-server validate`, `lint`, `diff` and `convert`: commands that only read files."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from queuegate.policy.acl import AclNames
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.cli.command import FILE, Failure
from queuegate_server.files.safe_open import open_regular, remedy
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors
from queuegate_server.formats.diff import differences
from queuegate_server.formats.registry import (
    FILE_FORMATS,
    YUNIKORN,
    FormatOptions,
    check_file,
    detect_file_format,
    detect_format,
    load_policy,
)
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.yarn.convert import convert as convert_to_yunikorn
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.formats.yarn.schedulers import SCHEDULERS
from queuegate_server.runtime import resources
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.transports.registry import choose

EXIT_NO: Final = 1
"""Exit status: invalid, different, or not converted completely."""

_STDIN: Final = "-"
_Command = TypeVar("_Command", bound=Callable[..., None])


def _reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how policies are read; the command gets them as `options`."""

    @click.option(
        "--acl-names",
        type=click.Choice([names.value for names in AclNames]),
        default=AclNames.YUNIKORN.value,
        show_default=True,
        help="Which names the ACLs of a queues.yaml may list, in all partitions.",
    )
    @click.option(
        "--yarn-site",
        type=FILE,
        help="YARN: the cluster's yarn-site.xml.",
    )
    @click.option(
        "--semantics",
        type=click.Choice([semantics.value for semantics in Semantics]),
        default=Semantics.DOCUMENTED.value,
        show_default=True,
        help="YARN: which semantics apply where its documentation and Hadoop's code differ.",
    )
    @functools.wraps(command)
    def with_options(
        *,
        acl_names: str,
        yarn_site: Path | None,
        semantics: str,
        resolver_types: tuple[str, ...] = (),
        daemon_user: str = "",
        **arguments: Any,
    ) -> None:
        resources.configure_gc()
        yarn = YarnOptions(
            semantics=Semantics(semantics),
            site=_read_or_fail(yarn_site) if yarn_site else None,
            daemon_user=daemon_user,
        )
        options = FormatOptions(AclNames(acl_names), frozenset(resolver_types), yarn)
        command(options=options, **arguments)

    return with_options


_resolver_types_option: Final = click.option(
    "--resolver-type",
    "resolver_types",
    multiple=True,
    metavar="TYPE",
    help="A group resolver that the server has in addition to its own; repeatable.",
)


def _checking_options(command: _Command) -> _Command:
    for decorate in (
        _resolver_types_option,
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
@_reading_options
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
@_reading_options
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
@_reading_options
@_resolver_types_option
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
    if old == new == _STDIN:
        raise Failure("only one of the two can be standard input")
    (old_is_yunikorn, before), (new_is_yunikorn, after) = (_load(old, options), _load(new, options))
    if old_is_yunikorn is not new_is_yunikorn:
        # Names of queues compare differently, and YARN has administrators of the cluster.
        raise Failure("one file is YuniKorn's and the other YARN's: convert one of them first")
    lines = list(differences(before, after))
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
@_reading_options
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
    data, name = _read_or_fail(file)
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
    data, name = _read_or_fail(file)
    format_name = detect_format(data)
    loaded = load_policy(format_name, data, name, options)
    if has_errors(loaded.diagnostics):
        for diagnostic in loaded.diagnostics:
            click.echo(str(diagnostic), err=True)
        raise Failure(f"{name}: not valid")
    return format_name == YUNIKORN, loaded.partitions


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
        name = _shown_name(file)
        try:
            data = _read(file)
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


def _shown_name(file: str | Path) -> str:
    return "<stdin>" if file == _STDIN else str(file)


def _read(file: str | Path) -> bytes:
    """Return the content of a file, or of standard input. Raises OSError."""
    with click.open_file(file, "rb") if file == _STDIN else open_regular(Path(file)) as stream:
        data: bytes = stream.read(MAX_BYTES + 1)
        return data


def _read_or_fail(file: str | Path) -> tuple[bytes, str]:
    """Return the content of a file and its name. Raises Failure."""
    try:
        return _read(file), _shown_name(file)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror or error} ({remedy(error)})"
        raise Failure(message) from None


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
