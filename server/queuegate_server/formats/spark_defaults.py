"""Reads spark-defaults.conf, a Java properties file with one property per line."""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, Position, quoted
from queuegate_server.formats.findings.acls import WILDCARD_ALONE
from queuegate_server.formats.source_text import decode

_LINE: Final = re.compile(
    r"[ \t\f]*(?P<key>[^\s=:]+)(?:[ \t\f]*[=:]|[ \t\f]|$)[ \t\f]*(?P<value>.*)"
)
_SWITCHES: Final = frozenset({"spark.acls.enable", "spark.history.ui.acls.enable"})
_FOR_ALL: Final = ("spark.admin.acls", "spark.modify.acls", "spark.history.ui.admin.acls")
_LISTS: Final = frozenset(
    name + kind for name in (*_FOR_ALL, "spark.ui.view.acls") for kind in ("", ".groups")
)
_REMOVED: Final = "spark.ui.acls.enable"


def read_spark_defaults(
    data: bytes, file: str, *, with_lint: bool = False
) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Return the properties and diagnostics. The last value of a property wins.

    A line is `name value`, `name=value` or `name: value`; values are trimmed, as in Spark. In ACL
    properties, line continuations and escapes are errors, because no ACL needs them. `with_lint`
    adds warnings about valid but probably unintended content.
    """
    diagnostics = Diagnostics(file)
    properties: dict[str, str] = {}
    with diagnostics:
        for position, name, value in _read(decode(data), diagnostics):
            if name in properties:
                message = f"{quoted(name)} is already set above; this value replaces that one"
                diagnostics.warning(position, message, "remove one of them")
            properties[name] = value
            if with_lint:
                _lint(position, name, value, diagnostics)
    return properties, diagnostics.sorted()


def _read(text: str, diagnostics: Diagnostics) -> Iterator[tuple[Position, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        position = Position(number, 1)
        stated = line.strip()
        if not stated or stated[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        if match is None or (match["key"].startswith("spark.") and "\\" in line and "acls" in line):
            message = f"{quoted(stated)} is not a valid property"
            remedy = "write the name, a space and the value on one line"
            diagnostics.error(position, message, remedy)
            continue
        name, value = match["key"], match["value"].strip(TRIMMED)
        try:
            spark_acls({name: value})
        except SparkError as error:
            diagnostics.error(position, str(error), "correct it, or remove the line")
        yield position, name, value


def _lint(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if name == _REMOVED:
        message = f"{_REMOVED} has no effect since Spark 3"
        diagnostics.warning(position, message, "write spark.acls.enable")
    elif name in _LISTS:
        _lint_list(position, name, value, diagnostics)
    elif name.lower().startswith("spark.") and "acl" in name.lower() and name not in _SWITCHES:
        message = f"{quoted(name)} is not a Spark property: it is ignored"
        diagnostics.warning(position, message, f"write one of {', '.join(sorted(_LISTS))}")


def _lint_list(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if "${" in value:
        message = f"the variable in {quoted(value)} is not expanded but read as a name"
        diagnostics.warning(position, message, "write its value instead")
    names = [stated for entry in value.split(",") if (stated := entry.strip(TRIMMED))]
    with_blank = next((each for each in names if len(each.split()) > 1), None)
    if with_blank is not None:
        message = f"{quoted(with_blank)} is one name: only commas separate names"
        diagnostics.warning(position, message, "write commas between the names")
    if WILDCARD in names and name.removesuffix(".groups") in _FOR_ALL:
        message = f"{name} contains *: everyone may modify every application"
        diagnostics.warning(position, message, "list a few users or groups")
    elif WILDCARD in names and len(names) > 1:
        message = f"{name} contains *: everyone has access, and its other names have no effect"
        diagnostics.warning(position, message, WILDCARD_ALONE)
