"""All findings, by identifier."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from queuegate_server.formats.findings import acls, spark, users, yarn, yarn_site, yunikorn
from queuegate_server.formats.findings.finding import Finding

SUBJECTS: Final[Mapping[str, ModuleType]] = MappingProxyType(
    {
        "ACLs and names, in all formats": acls,
        "queues.yaml": yunikorn,
        "The files of a YARN cluster": yarn,
        "yarn-site.xml, and what decides beside a scheduler's file": yarn_site,
        "spark-defaults.conf": spark,
        "A policy and a list of users": users,
    }
)


def findings_of(module: ModuleType) -> Iterator[Finding]:
    """Yield the findings of a table, in its order."""
    return (each for each in vars(module).values() if isinstance(each, Finding))


FINDINGS: Final[Mapping[str, Finding]] = MappingProxyType(
    {each.identifier: each for module in SUBJECTS.values() for each in findings_of(module)}
)
