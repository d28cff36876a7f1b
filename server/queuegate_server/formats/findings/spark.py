"""Findings about a spark-defaults.conf."""

from typing import Final

from queuegate_server.formats.findings.finding import PHRASES, read_table

TABLE: Final = read_table("spark")

PROPERTIES: Final = PHRASES["spark-properties"]
REPEATED: Final = TABLE["repeated-property"]
NOT_A_PROPERTY: Final = TABLE["not-a-property"]
BAD_VALUE: Final = TABLE["bad-value"]
REMOVED: Final = TABLE["removed-property"]
UNKNOWN: Final = TABLE["unknown-spark-property"]
VARIABLE: Final = TABLE["variable-in-list"]
SPACES: Final = TABLE["spaces-between-names"]
EVERYONE_MODIFIES: Final = TABLE["everyone-modifies"]
EVERYONE_BESIDE_NAMES: Final = TABLE["everyone-beside-other-names"]
