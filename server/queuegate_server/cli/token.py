"""`queuegate-server token`."""

import hashlib
import re
import secrets
from typing import Final

import click

TOKEN_BYTES: Final = 32


@click.command()
@click.argument("name")
def token(name: str) -> None:
    """Generate a bearer token for the caller NAME.

    The token is printed once and not stored: give it to the caller in a file, and add the printed
    line, which contains only its SHA-256, to callers.token_file of the server.
    """
    from queuegate_server.settings.callers import TOKEN_NAME  # noqa: PLC0415 - slow, not for --help

    if not re.fullmatch(TOKEN_NAME.removesuffix("$"), name):
        raise click.BadParameter(
            "a name has at most 64 letters, digits, '-', '_' and '.', and begins with a letter or"
            " a digit",
            param_hint="NAME",
        )
    value = f"qg_{secrets.token_urlsafe(TOKEN_BYTES)}"
    click.echo(f"token, shown only now: {value}")
    click.echo(f"line for callers.token_file: {name}:{hashlib.sha256(value.encode()).hexdigest()}")
