"""Failures of the commands of `queuegate-server`."""

import click

from queuegate_server.cli import EXIT_FAILURE


class Failure(click.ClickException):
    """Wrong usage or configuration, or a file that cannot be read or written."""

    exit_code = EXIT_FAILURE
