"""Findings about the files of a YARN cluster."""

from typing import Final

from queuegate_server.formats.findings.finding import read_table

TABLE: Final = read_table("yarn")

LINE_BREAK: Final = TABLE["line-break-in-acl"]
SPACE_AT_COMMA: Final = TABLE["space-beside-comma"]
ALL_AMONG_NAMES: Final = TABLE["everyone-among-names"]
AMBIGUOUS: Final = TABLE["ambiguous-acl"]
IF_ONE_GROUP: Final = "separate groups with commas; if it is one group, list it with --users-from"
NO_SERVICE: Final = TABLE["proxy-without-service"]
INVALID_NAMES: Final = TABLE["invalid-names"]
OPEN_ROOT: Final = TABLE["root-without-acl"]
EVERYONE_AT_ROOT: Final = TABLE["root-open-to-everyone"]
CREATED_FOR_NOBODY: Final = TABLE["queues-created-for-nobody"]
MAPPED_GROUP: Final = TABLE["group-in-mappings"]
GRANTED_BY_TEMPLATE: Final = TABLE["granted-by-yarn-itself"]
