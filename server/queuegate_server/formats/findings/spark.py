"""Findings about a spark-defaults.conf."""

from typing import Final

from queuegate_server.formats.findings.acls import REMOVE_ONE, WILDCARD_ALONE, WRITE_THE_VALUE
from queuegate_server.formats.findings.finding import Finding

PROPERTIES: Final = "Spark's Utils.getPropertiesFromFile"
SECURITY: Final = "Spark's documentation of its security"

REPEATED: Final = Finding(
    "repeated-property",
    "{name} is already set above; this value replaces that one",
    REMOVE_ONE,
    PROPERTIES,
)
NOT_A_PROPERTY: Final = Finding(
    "not-a-property",
    "{text} is not a valid property",
    "write the name, a space and the value on one line",
    PROPERTIES,
    is_error=True,
)
BAD_VALUE: Final = Finding(
    "bad-value", "{why}", "correct it, or remove the line", SECURITY, is_error=True
)
REMOVED: Final = Finding(
    "removed-property",
    "{name} has no effect since Spark 3",
    "write spark.acls.enable",
    SECURITY,
)
UNKNOWN: Final = Finding(
    "unknown-spark-property",
    "{name} is not a Spark property: it is ignored",
    "write one of {names}",
    SECURITY,
)
VARIABLE: Final = Finding(
    "variable-in-list",
    "the variable in {value} is not expanded but read as a name",
    WRITE_THE_VALUE,
    PROPERTIES,
)
SPACES: Final = Finding(
    "spaces-between-names",
    "{name} is one name: only commas separate names",
    "write commas between the names",
    SECURITY,
)
EVERYONE_MODIFIES: Final = Finding(
    "everyone-modifies",
    "{name} contains *: everyone may modify every application",
    "list a few users or groups",
    SECURITY,
)
EVERYONE_BESIDE_NAMES: Final = Finding(
    "everyone-beside-other-names",
    "{name} contains *: everyone has access, and its other names have no effect",
    WILDCARD_ALONE,
    SECURITY,
)
