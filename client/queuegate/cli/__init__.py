"""The command `queuegate`."""

import os
import sys
from collections.abc import Sequence

import click

from queuegate.cli.commands import queuegate
from queuegate.cli.output import wrong_usage


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: allowed or done; 1: denied; 2: wrong usage or configuration; 3: no answer.
    """
    # gRPC would log failed connections to standard error; the command reports them itself.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # The first socket would take the number of a closed standard stream.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status: int = queuegate.main(arguments, "queuegate", standalone_mode=False)
    except click.UsageError as error:
        return wrong_usage(error, arguments)
    return status
