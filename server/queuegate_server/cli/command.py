"""Failures and the event loop of the commands of `queuegate-server`."""

import asyncio
from collections.abc import Coroutine

import click

from queuegate_server.cli import EXIT_FAILURE


class Failure(click.ClickException):
    """Wrong usage or configuration, or a file that cannot be read or written."""

    exit_code = EXIT_FAILURE


def run_in_loop(main: Coroutine[object, object, None]) -> None:
    """Run a server on uvloop, or on asyncio's own loop where uvloop does not exist."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
