"""`queuegate-server`: the entry point."""

import contextlib
import os
import signal
import sys

from queuegate_server.runtime import fds

_FAILED = 2
"""Exit status: wrong usage or configuration, or what could not be read or written."""


def main() -> None:
    """Run the command line; say how to install the server where only the client is."""
    fds.occupy_the_standard_ones()
    if sys.__stderr__ is None:
        sys.stderr = os.fdopen(2, "w")
    if sys.argv[1:2] == ["serve"]:
        # Whoever has a server read its files again must not end one that is just starting.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        import click  # noqa: F401, PLC0415 - the plain install is the client
    except ImportError:
        sys.stderr.write("the server is not installed: pip install 'queuegate[server]'\n")
        raise SystemExit(_FAILED) from None
    from queuegate_server.cli.group import group  # noqa: PLC0415 - needs click

    try:
        group()
    except OSError as error:
        # Nothing but the output of a command is left that can fail so.
        with contextlib.suppress(OSError):
            sys.stderr.write(f"Error: cannot write: {error.strerror or error}\n")
        raise SystemExit(_FAILED) from None
