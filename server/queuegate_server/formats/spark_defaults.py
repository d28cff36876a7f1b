"""spark-defaults.conf: a property on each line, read as Java reads its property files."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from queuegate.policy.spark import SparkError, spark_acls
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostic_list import Findings, TooManyErrors, quoted
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.spark_lint import lint_spark
from queuegate_server.formats.yaml_text import At, Unreadable, decode

_LINE: Final = re.compile(
    r"[ \t\f]*(?P<key>[^\s=:]+)(?:[ \t\f]*[=:]|[ \t\f]|$)[ \t\f]*(?P<value>.*)"
)


def read_spark_defaults(
    data: bytes, file: str, *, with_lint: bool = False
) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Return the properties, and the findings in order, also in what is valid but doubtful if
    asked to. Of one name the last one counts.

    A line is `name value`, `name=value` or `name: value`; values are trimmed, as Spark does.
    Neither lines that go on in the next one nor escapes are accepted: no ACL needs them.
    """
    findings = Findings(file)
    properties: dict[str, str] = {}
    stated: list[tuple[At, str, str]] = []
    try:
        text = decode(data)
    except Unreadable as fault:
        findings.error(fault.place, fault.message, fault.remedy)
        return {}, findings.in_order()
    with suppress(TooManyErrors):
        for place, name, value in _read(text, findings):
            if name in properties:
                message = f"{quoted(name)} is set above, too: this value replaces that one"
                findings.warning(place, message, "remove one of them")
            properties[name] = value
            stated.append((place, name, value))
    if with_lint:
        lint_spark(stated, findings)
    return properties, findings.in_order()


def _read(text: str, findings: Findings) -> Iterator[tuple[At, str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        place = At(number, 1)
        stated = line.strip()
        if not stated or stated[0] in "#!":
            continue
        found = _LINE.fullmatch(line)
        if found is None or (found["key"].startswith("spark.") and "\\" in line and "acls" in line):
            message = f"{quoted(stated)} is no property that is understood here"
            findings.error(place, message, "write the name, a space and the value on one line")
            continue
        name, value = found["key"], found["value"].strip(TRIMMED)
        try:
            spark_acls({name: value})
        except SparkError as error:
            findings.error(place, str(error), "write true or false")
        yield place, name, value
