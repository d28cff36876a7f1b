"""How a command of `queuegate-server` ends that cannot do what it is asked."""

from typing import Final

import click

CANNOT: Final = 2
"""Exit status: wrong usage or configuration, or a file that cannot be read or written."""


class Failure(click.ClickException):
    """Wrong usage or configuration, or a file that cannot be read or written; the message says
    which.
    """

    exit_code = CANNOT
