"""Reads spark-defaults.conf, a Java properties file with one property per line."""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, Position, quoted
from queuegate_server.formats.findings.table import finding
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
                diagnostics.add(position, finding("repeated-property", name=quoted(name)))
            properties[name] = value
            if with_lint:
                _lint(position, name, value, diagnostics)
    return properties, diagnostics.sorted()


def _read(text: str, diagnostics: Diagnostics) -> Iterator[tuple[Position, str, str]]:
    """Yield each property with its position; report lines that are not properties, and values that
    Spark rejects.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        position = Position(number, 1)
        stated = line.strip()
        if not stated or stated[0] in "#!":
            continue
        match = _LINE.fullmatch(line)
        has_escapes = "\\" in line and "acls" in line
        if match is None or (has_escapes and match["key"].startswith("spark.")):
            diagnostics.add(position, finding("not-a-property", text=quoted(stated)))
            continue
        name, value = match["key"], match["value"].strip(TRIMMED)
        try:
            spark_acls({name: value})
        except SparkError as error:
            diagnostics.add(position, finding("bad-value", why=error))
        yield position, name, value


def _lint(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if name == _REMOVED:
        diagnostics.add(position, finding("removed-property", name=name))
    elif name in _LISTS:
        _lint_list(position, name, value, diagnostics)
    elif name.lower().startswith("spark.") and "acl" in name.lower() and name not in _SWITCHES:
        known = ", ".join(sorted(_LISTS))
        found = finding("unknown-spark-property", name=quoted(name), known=known)
        diagnostics.add(position, found)


def _lint_list(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if "${" in value:
        diagnostics.add(position, finding("variable-in-list", value=quoted(value)))
    names = [stated for entry in value.split(",") if (stated := entry.strip(TRIMMED))]
    with_blank = next((each for each in names if len(each.split()) > 1), None)
    if with_blank is not None:
        diagnostics.add(position, finding("spaces-between-names", name=quoted(with_blank)))
    if WILDCARD in names and name.removesuffix(".groups") in _FOR_ALL:
        diagnostics.add(position, finding("everyone-modifies", name=name))
    elif WILDCARD in names and len(names) > 1:
        diagnostics.add(position, finding("everyone-beside-other-names", name=name))
