"""Code shared by all commands: failures, options, and file access."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

import click

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.analysis.policy_file import STDIN_NAME
from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.files.safe_open import open_regular, read_at_most, remedy
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.kubernetes_rbac.manifests import ManifestFiles
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.runtime import resources

FILE: Final = click.Path(dir_okay=False, path_type=Path)
STDIN: Final = "-"
"""The argument that means standard input."""


class Failure(click.ClickException):
    """Usage or configuration is incorrect, or a file cannot be read or written."""

    exit_code = EXIT_FAILURE

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        """Create a failure. Its diagnostics are written in the format set with `--output`."""
        super().__init__(message)
        self.diagnostics = diagnostics

    @classmethod
    def of(cls, message: str, diagnostics: Sequence[Diagnostic]) -> Self:
        """Return a failure whose message includes the diagnostics."""
        return cls("\n".join([message, *map(str, diagnostics)]), diagnostics)


def config_option(
    text: str = "The server's own configuration (queuegate.yaml).",
    *,
    required: bool = False,
    variable: str | None = "QUEUEGATE_CONFIG",
) -> Callable[[Any], Any]:
    """Return the `--config` option, which can also be set by an environment variable."""
    return click.option(
        "--config", required=required, type=FILE, envvar=variable, show_envvar=True, help=text
    )


overrides_option: Final = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the settings; repeatable. Write lists as [a, b], sections as {key: value}.",
)


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options that control how policies are read. The command receives them as `options`."""

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
        **arguments: Any,
    ) -> None:
        resources.configure_gc()
        yarn = YarnOptions(
            semantics=Semantics(semantics),
            site=read_or_fail(yarn_site) if yarn_site else None,
        )
        options = FormatOptions(AclNames(acl_names), yarn=yarn, has_acl_names_option=True)
        command(options=options, **arguments)

    return with_options


old_site_option: Final = click.option(
    "--old-yarn-site",
    type=FILE,
    help="YARN: the yarn-site.xml of the old policy. [default: the same as --yarn-site]",
)


def shown_name(file: str | Path) -> str:
    """Return the name by which diagnostics refer to a file."""
    return STDIN_NAME if file == STDIN else str(file)


def read_file(file: str | Path) -> bytes:
    """Return the content of a file, a folder with manifests or, once, standard input.

    Raises OSError and Failure.
    """
    context = click.get_current_context(silent=True)
    if file == STDIN and context is not None:
        if STDIN in context.meta:
            raise Failure("only one argument can be standard input (-)")
        context.meta[STDIN] = True
    if file != STDIN and Path(file).is_dir():
        return ManifestFiles((Path(file),)).read()
    with click.open_file(file, "rb") if file == STDIN else open_regular(Path(file)) as stream:
        return read_at_most(stream, MAX_BYTES)


def read_or_fail(file: str | Path) -> tuple[bytes, str]:
    """Return the content and name of a file. Raises Failure."""
    try:
        return read_file(file), shown_name(file)
    except OSError as error:
        diagnostic = unreadable(file, error)
        raise Failure(f"{file}: {diagnostic.message} ({diagnostic.remedy})", [diagnostic]) from None


def unreadable(file: str | Path, error: OSError) -> Diagnostic:
    """Return the diagnostic for an unreadable file."""
    message = f"cannot be read: {error.strerror or error}"
    place = (shown_name(file), 0, 0)
    return Diagnostic(*place, Severity.ERROR, message, remedy(error), finding="unreadable-file")


def write_file(file: Path, text: str, remedy: str, *, mode: int) -> None:
    """Write a new file. Raises Failure.

    `remedy` is added to the error message if the file exists.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_EXCL
    try:
        with os.fdopen(os.open(file, flags, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise Failure(f"{file}: already exists; {remedy}") from None
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror or error}") from None
