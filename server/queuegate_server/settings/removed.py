"""The settings and options that no longer exist, for error messages and the reference page.

A setting that nobody had a reason to change is a constant now, with its reason, in the module that
uses it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from queuegate_server.files.toml import read_toml

NAME: Final = "NAME"
"""Stands for a name of the user's choice."""


class RemovedSetting(NamedTuple):
    """A key that the settings no longer have."""

    key: str
    """The path of the key."""
    value: str = ""
    """What always applies now; empty if another setting decides."""
    instead: str = "nothing"
    """What to do for those who have set the key."""
    constant: str = ""
    """The constant with the value: its module and name."""
    resolver_types: Sequence[str] = ()
    """The types of resolvers that had the key; empty for all types and all other sections."""


@cache
def removed_settings() -> Sequence[RemovedSetting]:
    """Return all keys that were removed, from removed.toml, which few runs need."""
    entries = read_toml(__file__, "removed.toml")["settings"]
    return [RemovedSetting(**entry) for entry in entries]


def removed_setting(keys: Sequence[str | int], resolver_type: str) -> RemovedSetting | None:
    """Return what is known about the key at a path, if it is one that was removed.

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
