"""spark-defaults.conf: a property on each line, read as Java reads its property files."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    TooManyErrors,
    quoted,
)
from queuegate_server.formats.spark_lint import lint_spark
from queuegate_server.formats.yaml_text import ParseError, Position, decode

_LINE: Final = re.compile(
    r"[ \t\f]*(?P<key>[^\s=:]+)(?:[ \t\f]*[=:]|[ \t\f]|$)[ \t\f]*(?P<value>.*)"
)


def read_spark_defaults(
    data: bytes, file: str, *, with_lint: bool = False
) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Return the properties, and the diagnostics in order, also in what is valid but doubtful if
    asked to. Of one name the last one counts.

    A line is `name value`, `name=value` or `name: value`; values are trimmed, as Spark does.
    Neither lines that go on in the next one nor escapes are accepted: no ACL needs them.
    """
    diagnostics = Diagnostics(file)
    properties: dict[str, str] = {}
    stated: list[tuple[Position, str, str]] = []
    try:
        text = decode(data)
    except ParseError as fault:
        diagnostics.error(fault.position, fault.message, fault.remedy)
        return {}, diagnostics.sorted()
    with suppress(TooManyErrors):
        for position, name, value in _read(text, diagnostics):
            if name in properties:
                message = f"{quoted(name)} is set above, too: this value replaces that one"
                diagnostics.warning(position, message, "remove one of them")
            properties[name] = value
            stated.append((position, name, value))
    if with_lint:
        lint_spark(stated, diagnostics)
    return properties, diagnostics.sorted()


def _read(text: str, diagnostics: Diagnostics) -> Iterator[tuple[Position, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        position = Position(number, 1)
        stated = line.strip()
        if not stated or stated[0] in "#!":
            continue
        found = _LINE.fullmatch(line)
        if found is None or (found["key"].startswith("spark.") and "\\" in line and "acls" in line):
            message = f"{quoted(stated)} is no property that is understood here"
            diagnostics.error(
                position, message, "write the name, a space and the value on one line"
            )
            continue
        name, value = found["key"], found["value"].strip(TRIMMED)
        try:
            spark_acls({name: value})
        except SparkError as error:
            diagnostics.error(position, str(error), "write true or false")
        yield position, name, value
