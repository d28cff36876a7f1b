"""`queuegate-server token`."""

import hashlib
import re
import secrets
from typing import Final

import click

_BYTES: Final = 32


@click.command()
@click.argument("name")
def token(name: str) -> None:
    """Make a bearer token for the caller NAME.

    It is shown once and kept nowhere: give it to the caller in a file, and add the line to
    callers.token_file of the server, which holds only its SHA-256.
    """
    from queuegate_server.settings.callers import TOKEN_NAME  # noqa: PLC0415 - slow, not for --help

    if not re.fullmatch(TOKEN_NAME.removesuffix("$"), name):
        raise click.BadParameter(
            "a name has letters, digits, '-', '_' and '.', at most 64, and begins with one of the"
            " first two",
            param_hint="NAME",
        )
    made = f"qg_{secrets.token_urlsafe(_BYTES)}"
    click.echo(f"token, shown only now: {made}")
    click.echo(f"line for callers.token_file: {name}:{hashlib.sha256(made.encode()).hexdigest()}")
