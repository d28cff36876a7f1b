"""The `queuegate` command."""

import os
import sys
from collections.abc import Callable, Sequence

import click

from queuegate.cli.commands import queuegate
from queuegate.cli.output import wrong_usage


def main(
    arguments: Sequence[str] | None = None,
    *,
    program: str = "queuegate",
    default_user: Callable[[], str] | None = None,
) -> int:
    """Run the command line and return its exit status.

    0: allowed or done; 1: denied; 2: incorrect usage or configuration; 3: no answer.

    Args:
        arguments: The command line. Defaults to this process's command line.
        program: The program's name, for help and errors.
        default_user: Returns the value to use if USER is omitted. If None, USER is required.
    """
    # The command reports failed connections itself, so silence gRPC's log on standard error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Open /dev/null in place of closed standard streams, so that no socket gets their file
    # descriptors.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status: int = queuegate.main(arguments, program, standalone_mode=False, obj=default_user)
    except click.UsageError as error:
        return wrong_usage(error, arguments)
    return status
