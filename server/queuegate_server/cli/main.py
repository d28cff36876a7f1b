"""The entry point of `queuegate-server`, which assembles its commands."""

# Imports are deferred because a default installation has only the client's dependencies.
# ruff: noqa: PLC0415

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.runtime import resources

if TYPE_CHECKING:
    import click


def main() -> None:
    """Run the command line, or explain how to install the server."""
    resources.open_standard_streams()
    if sys.__stderr__ is None:
        sys.stderr = os.fdopen(2, "w")
    if sys.argv[1:2] in (["serve"], ["admission"]):
        # Without a handler, a reload signal would terminate the server while it is starting.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        commands = command_group()
    except ModuleNotFoundError as error:
        if (error.name or "queuegate").startswith("queuegate"):
            raise
        message = f"the server is not installed ({error.name} is missing)"
        sys.stderr.write(f"Error: {message}: pip install 'queuegate[server]'\n")
        raise SystemExit(EXIT_FAILURE) from None
    try:
        commands()
    except OSError as error:
        # Commands handle all errors except failures to write output.
        with contextlib.suppress(OSError):
            sys.stderr.write(f"Error: cannot write: {error.strerror or error}\n")
        resources.drop_unwritten_output()
        raise SystemExit(EXIT_FAILURE) from None


def command_group() -> "click.Group":
    """Return the group of all commands.

    Raises ModuleNotFoundError if only the client is installed.
    """
    import click

    from queuegate_server.cli.admission import admission
    from queuegate_server.cli.command_group import CommandGroup
    from queuegate_server.cli.convert import convert
    from queuegate_server.cli.diff import diff
    from queuegate_server.cli.policy_files import lint, validate
    from queuegate_server.cli.policy_test import policy_test
    from queuegate_server.cli.prove import prove
    from queuegate_server.cli.serve import serve
    from queuegate_server.cli.source_check import source_check
    from queuegate_server.cli.token import token

    commands = (
        admission,
        serve,
        validate,
        lint,
        diff,
        prove,
        policy_test,
        convert,
        source_check,
        token,
    )
    group = CommandGroup(
        "queuegate-server",
        commands={command.name or "": command for command in commands},
        help="Serve, validate, lint and compare queue access policies of cluster schedulers.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    version = click.version_option(
        package_name="queuegate", prog_name="queuegate-server", message="%(prog)s %(version)s"
    )
    return version(group)
