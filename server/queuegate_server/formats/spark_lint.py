"""Doubtful things in a spark-defaults.conf: what Spark accepts, and hardly means what it says."""

from collections.abc import Iterable
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_text import Position

_SWITCHES: Final = frozenset({"spark.acls.enable", "spark.history.ui.acls.enable"})
_FOR_ALL: Final = ("spark.admin.acls", "spark.modify.acls", "spark.history.ui.admin.acls")
_LISTS: Final = frozenset(
    name + kind for name in (*_FOR_ALL, "spark.ui.view.acls") for kind in ("", ".groups")
)
_REMOVED: Final = "spark.ui.acls.enable"


def lint_spark(properties: Iterable[tuple[Position, str, str]], diagnostics: Diagnostics) -> None:
    """Note what is doubtful in properties, each given with its position, its name and its value."""
    for position, name, value in properties:
        if name == _REMOVED:
            message = f"{_REMOVED} means nothing since Spark 3"
            diagnostics.warning(position, message, "write spark.acls.enable")
        elif name in _LISTS:
            _lint_list(position, name, value, diagnostics)
        elif _looks_like_acl(name) and name not in _SWITCHES:
            message = f"{quoted(name)} is no property of Spark: it is ignored"
            diagnostics.warning(position, message, f"write one of {', '.join(sorted(_LISTS))}")
        if "${" in value and name in _LISTS:
            message = f"the variable in {quoted(value)} is not replaced here: it is taken as a name"
            diagnostics.warning(position, message, "write out what it stands for")


def _looks_like_acl(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith("spark.") and "acl" in lowered


def _lint_list(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    names = [stated for entry in value.split(",") if (stated := entry.strip(TRIMMED))]
    with_blank = next((each for each in names if len(each.split()) > 1), None)
    if with_blank is not None:
        message = f"{quoted(with_blank)} is one name: only commas part names"
        diagnostics.warning(position, message, "write commas between the names")
    if WILDCARD in names and name.removesuffix(".groups") in _FOR_ALL:
        message = f"{name} has a *: everybody may change each application"
        diagnostics.warning(position, message, "list a few users or groups")
    elif WILDCARD in names and len(names) > 1:
        message = f"{name} has a *: everybody is let in, whatever names are beside it"
        diagnostics.warning(position, message, "write * alone, or remove it")
