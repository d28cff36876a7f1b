"""removed-settings.md: the settings and options that no longer exist."""

from typing import Final

from docs.generate.markdown import code, page, sentence, table
from queuegate_server.settings.removed import removed_options, removed_settings

_INTRODUCTION: Final = """\
Nobody had a reason to change these [settings](settings.md), so each is now a constant. It is an
error if a settings file, a variable or a `--set` option still contains one of them, and the message
names the key. Delete the key; the last column says what else to do if its value was not the
default.

The reason for each value is given beside the constant in the source, in the package
`queuegate_server`.
"""
_OF_OPTIONS: Final = """\
## Options

It is an error to use one of these options on the command line. The environment variables for the
webhook's options, such as `QUEUEGATE_ADMISSION_LISTEN`, no longer exist either.
"""


def generate() -> str:
    """Return the page."""
    rows = (
        (_key(each.key, kind), code(each.value), code(each.constant), sentence(each.instead))
        for each in removed_settings()
        for kind in each.resolver_types or ("",)
    )
    head = ("setting", "what applies now", "constant", "what to do instead")
    options = (
        (code(f"{command} {each.name}"), sentence(each.instead))
        for each in removed_options()
        for command in each.commands
    )
    return page(
        "Removed settings and options",
        _INTRODUCTION,
        table(head, rows),
        _OF_OPTIONS,
        table(("option", "what to do instead"), options),
    )


def _key(key: str, resolver_type: str) -> str:
    return code(key) + (f" (`type: {resolver_type}`)" if resolver_type else "")
