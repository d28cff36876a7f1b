"""All findings, by subject and by identifier."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from queuegate_server.formats.findings import acls, spark, users, yarn, yarn_site, yunikorn
from queuegate_server.formats.findings.finding import Finding

SUBJECTS: Final[Mapping[str, Mapping[str, Finding]]] = MappingProxyType(
    {
        "ACLs and names, in all formats": acls.TABLE,
        "queues.yaml": yunikorn.TABLE,
        "The files of a YARN cluster": yarn.TABLE,
        "yarn-site.xml, and what decides beside a scheduler's file": yarn_site.TABLE,
        "spark-defaults.conf": spark.TABLE,
        "A policy and a list of users": users.TABLE,
    }
)
FINDINGS: Final[Mapping[str, Finding]] = MappingProxyType(
    {identifier: each for table in SUBJECTS.values() for identifier, each in table.items()}
)
