"""The settings and options that no longer exist, as error messages and the reference list them.

A setting that nobody had a reason to change is now a constant, with its reason, in the module that
uses it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from queuegate_server.files.toml import read_toml

NAME: Final = "NAME"
"""A placeholder for a name that users choose."""


class RemovedSetting(NamedTuple):
    """A key that the settings no longer have."""

    key: str
    """The path of the key."""
    value: str = ""
    """What always applies now; empty if another setting decides."""
    instead: str = "nothing"
    """What users who have set the key should do instead."""
    constant: str = ""
    """The constant with the value: its module and name."""
    resolver_types: Sequence[str] = ()
    """The types of resolvers that had the key; empty for all types and all other sections."""


class RemovedOption(NamedTuple):
    """An option that commands of `queuegate` or `queuegate-server` no longer have."""

    commands: Sequence[str]
    """The commands, after their program."""
    name: str
    """The option, with its dashes."""
    instead: str
    """What users who have passed the option should do instead."""


@cache
def _read() -> dict[str, list[dict[str, Any]]]:
    """Return the tables in removed.toml, which few runs need."""
    return read_toml(__file__, "removed.toml")


@cache
def removed_settings() -> Sequence[RemovedSetting]:
    """Return all keys that were removed."""
    return [RemovedSetting(**entry) for entry in _read()["settings"]]


@cache
def removed_options() -> Sequence[RemovedOption]:
    """Return all options that were removed."""
    return [RemovedOption(**entry) for entry in _read()["options"]]


def removed_option(command: str, name: str) -> RemovedOption | None:
    """Return the entry about a command's option, if the option was removed.

    Args:
        command: The program and the command, such as `queuegate-server convert`.
        name: The option, with its dashes.
    """
    for each in removed_options():
        if each.name == name and command in each.commands:
            return each
    return None


def removed_setting(keys: Sequence[str | int], resolver_type: str) -> RemovedSetting | None:
    """Return the entry about the key at a path, if the key was removed.

    Args:
        keys: The path of the key.
        resolver_type: The type of the resolver that has the key; empty for any other section.
    """
    for each in removed_settings():
        is_of_type = not each.resolver_types or resolver_type in each.resolver_types
        if is_of_type and _matches(each.key.split("."), keys):
            return each
    return None


def _matches(pattern: Sequence[str], keys: Sequence[str | int]) -> bool:
    return len(pattern) == len(keys) and all(
        wanted in {NAME, key} for wanted, key in zip(pattern, keys, strict=True)
    )


def explained(removed: RemovedSetting) -> tuple[str, str]:
    """Return the message and the remedy for a file that still has a key."""
    remedy = "delete the key"
    if removed.instead != "nothing":
        remedy += f"; instead, {removed.instead}"
    always = f": {removed.value} always applies" if removed.value else ""
    return f"this setting was removed{always}", remedy
