"""`queuegate-server convert`."""

from pathlib import Path

import click

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli import EXIT_FAILURE, policy_files
from queuegate_server.cli.command import Failure
from queuegate_server.files.safe_open import remedy
from queuegate_server.formats.registry import YUNIKORN, detect_format
from queuegate_server.formats.yarn.convert import convert as converted
from queuegate_server.formats.yarn.load import SCHEDULERS
from queuegate_server.formats.yarn.model import YarnOptions

_NOT_ALL = 1


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--to",
    type=click.Choice([YUNIKORN]),
    default=YUNIKORN,
    show_default=True,
    help="The format to write.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(sorted(SCHEDULERS)),
    help="The format of the file. [default: what its content looks like]",
)
@policy_files.yarn_site_option
@policy_files.semantics_option
@click.option(
    "--daemon-user",
    default="",
    metavar="USER",
    help="Whom the ResourceManager runs as: always an administrator of the cluster.",
)
@policy_files.acl_names_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write. [default: standard output]",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@click.pass_context
def convert(
    context: click.Context,
    *,
    file: str,
    to: str,  # noqa: ARG001 - one format so far, named so that others can follow
    format_name: str | None,
    yarn_site: Path | None,
    semantics: str,
    daemon_user: str,
    acl_names: str,
    output: Path | None,
    force: bool,
) -> None:
    """Write the queues of a YARN cluster as a queues.yaml of YuniKorn.

    FILE (- is standard input) is a fair-scheduler.xml or a capacity-scheduler.xml. Each user
    may submit to and administer the same queues as before; what YuniKorn cannot express
    grants less, and is told on standard error with file, line and column.

    Exit status: 0 the same access, 1 written, but something cannot be expressed, 2 wrong
    usage, or a file that cannot be read, converted or written.
    """
    try:
        data, name = policy_files.content(file)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror or error} ({remedy(error)})"
        raise Failure(message) from None
    detected = format_name or detect_format(data)
    if detected not in SCHEDULERS:
        raise Failure(f"{name}: this is no file of a scheduler of YARN")
    chosen = Semantics(semantics)
    options = YarnOptions(
        semantics=lambda _: chosen, site=policy_files.site(yarn_site), daemon_user=daemon_user
    )
    result = converted(detected, data, name, options, AclNames(acl_names))
    for diagnostic in (*result.diagnostics, *result.lost):
        click.echo(str(diagnostic), err=True)
    if not result.text:
        context.exit(EXIT_FAILURE)
    _write(result.text, output, force=force)
    for remark in result.remarks:
        click.echo(f"note: {remark}", err=True)
    context.exit(_NOT_ALL if result.lost else 0)


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
