"""Reads spark-defaults.conf, a Java properties file with one property per line."""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.acl import WILDCARD
from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, Position, quoted
from queuegate_server.formats.findings import spark
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
                diagnostics.add(position, spark.REPEATED.about(name=quoted(name)))
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
            diagnostics.add(position, spark.NOT_A_PROPERTY.about(text=quoted(stated)))
            continue
        name, value = match["key"], match["value"].strip(TRIMMED)
        try:
            spark_acls({name: value})
        except SparkError as error:
            diagnostics.add(position, spark.BAD_VALUE.about(why=error))
        yield position, name, value


def _lint(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if name == _REMOVED:
        diagnostics.add(position, spark.REMOVED.about(name=name))
    elif name in _LISTS:
        _lint_list(position, name, value, diagnostics)
    elif name.lower().startswith("spark.") and "acl" in name.lower() and name not in _SWITCHES:
        finding = spark.UNKNOWN.about(name=quoted(name), names=", ".join(sorted(_LISTS)))
        diagnostics.add(position, finding)


def _lint_list(position: Position, name: str, value: str, diagnostics: Diagnostics) -> None:
    if "${" in value:
        diagnostics.add(position, spark.VARIABLE.about(value=quoted(value)))
    names = [stated for entry in value.split(",") if (stated := entry.strip(TRIMMED))]
    with_blank = next((each for each in names if len(each.split()) > 1), None)
    if with_blank is not None:
        diagnostics.add(position, spark.SPACES.about(name=quoted(with_blank)))
    if WILDCARD in names and name.removesuffix(".groups") in _FOR_ALL:
        diagnostics.add(position, spark.EVERYONE_MODIFIES.about(name=name))
    elif WILDCARD in names and len(names) > 1:
        diagnostics.add(position, spark.EVERYONE_BESIDE_NAMES.about(name=name))
