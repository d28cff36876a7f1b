"""The command `queuegate`."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queuegate.cli.exit_codes import Exit, failure
from queuegate.cli.options import parse
from queuegate.cli.terminal import colours_for, escape

if TYPE_CHECKING:
    from queuegate.cli.commands import Report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: allowed or done; 1: denied; 2: wrong usage or configuration; 3: no answer.
    """
    # gRPC would log failed connections to standard error; we report them ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # The first socket would take the place of a closed standard stream.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    try:
        options = parse(arguments)
        return _print(_ask(options), options.output)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        return _fail(*failure(error))


def _ask(options: argparse.Namespace) -> "Report":
    # Imported late, together with gRPC, so that wrong usage and --help are reported at once.
    from queuegate._client import Client  # noqa: PLC0415
    from queuegate._settings import Tls  # noqa: PLC0415
    from queuegate.cli.commands import COMMANDS  # noqa: PLC0415

    files = (options.tls_ca, options.tls_cert, options.tls_key, options.tls_server_name)
    tls = Tls(*files) if any(file is not None for file in files) else None
    with Client(
        options.address,
        timeout=options.timeout or 1.0,
        tls=tls,
        token_file=options.token_file,
    ) as client:
        return COMMANDS[options.command](client, options, colours_for(sys.stdout))


def _print(report: "Report", output: str) -> int:
    from queuegate.cli.render import to_json  # noqa: PLC0415

    # Characters that the encoding of the terminal lacks are written as escapes.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    lines = [to_json(report.document)] if output == "json" else report.lines
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes the stream once more at exit, where no error can be caught.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return Exit.BROKEN_PIPE
        return _fail(f"cannot write the answer: {error.strerror}", Exit.NO_ANSWER)
    return _fail(report.problem, report.status) if report.problem else report.status


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"queuegate: {escape(message)}\n")
    return status
