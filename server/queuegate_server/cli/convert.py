"""`queuegate-server convert`: converts the queues of a YARN cluster to a YuniKorn queues.yaml."""

import sys

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate.policy.names import DEFAULT_PARTITION
from queuegate_server.cli import EXIT_FAILURE, EXIT_NO
from queuegate_server.cli.command import Failure, read_or_fail, reading_options
from queuegate_server.formats.detection import opened_policy_format
from queuegate_server.formats.diagnostics import ParseError
from queuegate_server.formats.envelope import open_envelope
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.yarn.convert import convert as convert_to_yunikorn
from queuegate_server.formats.yarn.schedulers import SCHEDULERS


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server convert fair-scheduler.xml > queues.yaml",
    exit_statuses={
        0: "converted, with the same access",
        EXIT_NO: "converted, but some access cannot be expressed in YuniKorn",
        EXIT_FAILURE: "incorrect usage, or a file that cannot be read or converted",
    },
)
@click.argument("file", metavar="FILE")
@reading_options
def convert(
    *,
    file: str,
    options: FormatOptions,
) -> None:
    """Convert YARN's queues to a queues.yaml for YuniKorn.

    FILE (- is standard input) is a fair-scheduler.xml or a capacity-scheduler.xml. The result is
    printed on standard output. Each user may submit to and administer the same queues as before.
    Where YuniKorn cannot express an ACL, the result grants less, and the loss is reported on
    standard error with file, line and column.
    """
    data, name = read_or_fail(file)
    try:
        opened = open_envelope(data, name)
    except ParseError as error:
        fault = error.diagnostic(name)
        raise Failure(str(fault), [fault]) from None
    detected = opened_policy_format(opened)
    if detected not in SCHEDULERS:
        raise Failure(
            f"{name}: not a YARN scheduler file: pass a fair-scheduler.xml or a"
            " capacity-scheduler.xml"
        )
    result = convert_to_yunikorn(
        detected, opened.data, opened.file, options.yarn, options.acl_names_of(DEFAULT_PARTITION)
    )
    for diagnostic in opened.in_file((*result.diagnostics, *result.lost)):
        click.echo(str(diagnostic), err=True)
    if not result.text:
        sys.exit(EXIT_FAILURE)
    click.echo(result.text, nl=False)
    for remark in result.remarks:
        click.echo(f"note: {remark}", err=True)
    sys.exit(EXIT_NO if result.lost else 0)
