"""Findings about a yarn-site.xml, and about what decides instead of a scheduler's file."""

from typing import Final

from queuegate_server.formats.findings.finding import read_table

TABLE: Final = read_table("yarn_site")

NOT_ENFORCED: Final = TABLE["acls-not-enforced"]
EVERYONE_ADMINISTERS: Final = TABLE["everyone-administers"]
NOT_A_SITE: Final = TABLE["not-a-yarn-site"]
MISSPELLED: Final = TABLE["misspelled-property"]
UNKNOWN_VALUE: Final = TABLE["unknown-value"]
AUTHORIZER: Final = TABLE["other-authorizer"]
PROVIDER: Final = TABLE["files-from-elsewhere"]
OTHER_FILE: Final = TABLE["other-allocation-file"]
UNKNOWN_SCHEDULER: Final = TABLE["unknown-scheduler"]
OTHER_SCHEDULER: Final = TABLE["other-scheduler"]
STORE: Final = TABLE["queues-in-a-store"]
MEMORY_STORE: Final = TABLE["queues-in-memory"]
UNKNOWN_STORE: Final = TABLE["unknown-store"]
