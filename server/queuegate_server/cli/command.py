"""What the commands of `queuegate-server` share: how they fail, and options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from queuegate_server.cli import EXIT_FAILURE

FILE: Final = click.Path(dir_okay=False, path_type=Path)


class Failure(click.ClickException):
    """Wrong usage or configuration, or a file that cannot be read or written."""

    exit_code = EXIT_FAILURE


def config_option(*, required: bool) -> Callable[[Any], Any]:
    """Return the option `--config`."""
    return click.option(
        "--config",
        required=required,
        type=FILE,
        envvar="QUEUEGATE_CONFIG",
        help="The server's own configuration (queuegate.yaml).",
    )


overrides_option: Final = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set any key; repeatable."
)
