"""Reads policy files and prints what was found in them, for `validate`, `lint` and others."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.cli.command import Failure
from queuegate_server.files.safe_open import open_regular, read_regular, remedy
from queuegate_server.formats.diagnostics import Diagnostic, Severity, has_errors
from queuegate_server.formats.registry import FILE_FORMATS, check_file, detect_file_format
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.yarn.model import YarnOptions

NO: Final = 1
"""Exit status: the answer is no."""

_STDIN: Final = "-"
_Command = TypeVar("_Command", bound=Callable[..., Any])
Check = Callable[[bytes, str], Iterable[Diagnostic]]
"""From the bytes of a file and the name to show for it to diagnostics in order."""


resolver_types_option: Final = click.option(
    "--resolver-type",
    "resolver_types",
    multiple=True,
    metavar="TYPE",
    help="A group resolver that the server has beside its own; repeatable.",
)
acl_names_option: Final = click.option(
    "--acl-names",
    type=click.Choice([names.value for names in AclNames]),
    default=AclNames.YUNIKORN.value,
    show_default=True,
    help="Which names the ACLs of a queues.yaml may list, in all partitions.",
)
yarn_site_option: Final = click.option(
    "--yarn-site",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YARN: the cluster's yarn-site.xml.",
)
semantics_option: Final = click.option(
    "--semantics",
    type=click.Choice([semantics.value for semantics in Semantics]),
    default=Semantics.DOCUMENTED.value,
    show_default=True,
    help="YARN: what holds where its documentation and Hadoop's code differ.",
)


def options(command: _Command) -> _Command:
    """Add the arguments that both commands take."""
    for decorate in (
        resolver_types_option,
        acl_names_option,
        click.option(
            "--format",
            "format_name",
            type=click.Choice(sorted(FILE_FORMATS)),
            help="The format of the files. [default: what their content looks like]",
        ),
        yarn_site_option,
        semantics_option,
        click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    ):
        command = decorate(command)
    return command


def checker(
    format_name: str | None,
    *,
    with_lint: bool,
    acl_names: str,
    resolver_types: tuple[str, ...],
    yarn_site: Path | None,
    semantics: str,
) -> Check:
    """Return what finds the diagnostics of one file, as the options say."""
    chosen = Semantics(semantics)
    yarn_options = YarnOptions(semantics=lambda _: chosen, site=site(yarn_site))

    def check(data: bytes, name: str) -> list[Diagnostic]:
        return check_file(
            format_name or detect_file_format(data),
            data,
            name,
            with_lint=with_lint,
            acl_names=AclNames(acl_names),
            resolver_types=frozenset(resolver_types),
            yarn_options=yarn_options,
        )

    return check


def site(path: Path | None) -> tuple[bytes, str] | None:
    """Return the content and the name of a yarn-site.xml. Raises Failure."""
    if path is None:
        return None
    try:
        return read_regular(path, MAX_BYTES), str(path)
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error} ({remedy(error)})"
        raise Failure(message) from None


def content(file: str) -> tuple[bytes, str]:
    """Return the content of a file (- is standard input) and its name. Raises OSError."""
    return _read(file), _name(file)


def report(files: Iterable[str], check: Check, *, warnings_fail: bool) -> int:
    """Print the diagnostics of all files, and a summary on stderr; return the exit status."""
    readable = True
    found: list[Diagnostic] = []
    count = 0
    for file in files:
        count += 1
        name = _name(file)
        try:
            data = _read(file)
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            found.append(Diagnostic(name, 0, 0, Severity.ERROR, message, remedy(error)))
            click.echo(str(found[-1]), err=True)
            readable = False
            continue
        diagnostics = list(check(data, name))
        for diagnostic in diagnostics:
            click.echo(str(diagnostic))
        found += diagnostics
    click.echo(_summary(count, found), err=True)
    if not readable:
        return EXIT_FAILURE
    return NO if has_errors(found) or (warnings_fail and found) else 0


def _name(file: str) -> str:
    return "<stdin>" if file == _STDIN else file


def _read(file: str) -> bytes:
    with click.open_file(file, "rb") if file == _STDIN else open_regular(Path(file)) as stream:
        data: bytes = stream.read(MAX_BYTES + 1)
        return data


def _summary(files: int, found: list[Diagnostic]) -> str:
    errors = sum(diagnostic.severity is Severity.ERROR for diagnostic in found)
    return ", ".join(
        f"{number} {noun}{'' if number == 1 else 's'}"
        for number, noun in (
            (files, "file"),
            (errors, "error"),
            (len(found) - errors, "warning"),
        )
    )
