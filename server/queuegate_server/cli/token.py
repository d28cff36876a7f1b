"""`queuegate-server token`: generates bearer tokens."""

import hashlib
import re
import secrets
from pathlib import Path
from typing import Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.cli.command import FILE, write_file

TOKEN_BYTES: Final = 32


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server token scheduler --output-file scheduler.token",
    exit_statuses={
        0: "the token is created",
        EXIT_FAILURE: "incorrect usage, or the file exists or cannot be written",
    },
)
@click.argument("name")
@click.option(
    "--output-file",
    type=FILE,
    help="Write the token to this new file, which only you can read, and print only the line.",
)
def token(name: str, output_file: Path | None) -> None:
    """Generate a bearer token for caller NAME.

    The token is printed or written once and not stored. Give it to the caller in a file, and add
    the printed line to the server's callers.token_file. The line contains only the token's SHA-256.
    """
    from queuegate_server.settings.callers import TOKEN_NAME  # noqa: PLC0415 - slow, not for --help

    if not re.fullmatch(TOKEN_NAME.removesuffix("$"), name):
        raise click.BadParameter(
            "must be 1 to 64 letters, digits, '-', '_' and '.', and begin with a letter or a digit",
            param_hint="NAME",
        )
    value = f"qg_{secrets.token_urlsafe(TOKEN_BYTES)}"
    line = f"{name}:{hashlib.sha256(value.encode()).hexdigest()}"
    if output_file is None:
        click.echo(f"token, shown only once: {value}")
        click.echo(f"line for callers.token_file: {line}")
        return
    remedy = "name a new file, or remove this one first"
    write_file(output_file, f"{value}\n", remedy, mode=0o600)
    click.echo(line)
