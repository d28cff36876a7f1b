"""Options for the webhook's objects in Kubernetes."""

import re
from typing import Final

import click

_LABEL: Final = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE: Final = re.compile(f"({_LABEL})/({_LABEL})")
_NAME: Final = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,240}[a-z0-9])?")


def _service(_: click.Context, __: click.Parameter, value: str) -> tuple[str, str]:
    match = _SERVICE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form NAMESPACE/NAME")
    return match[1], match[2]


def object_name(_: click.Context, __: click.Parameter, value: str) -> str:
    """Return the value of an option that names an object. Raises BadParameter."""
    if not _NAME.fullmatch(value):
        raise click.BadParameter(
            f"{value!r}: must consist of lowercase letters, digits, '-' and '.'"
        )
    return value


service_option: Final = click.option(
    "--service",
    default="yunikorn/queuegate-admission",
    show_default=True,
    metavar="NAMESPACE/NAME",
    callback=_service,
    help="The webhook's Service.",
)
