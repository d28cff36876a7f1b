"""The findings by identifier, from one TOML file for each subject.

A key before the first entry of a file applies to all entries that lack it. A value `$name` refers
to a phrase in `phrases.toml`.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from queuegate_server.files.toml import read_toml
from queuegate_server.formats.findings.finding import Finding, Severity

PHRASES: Final[Mapping[str, str]] = read_toml(__file__, "phrases.toml")


def _read(name: str) -> Mapping[str, Finding]:
    """Return the findings in a TOML file. Raises KeyError or TypeError if an entry is not valid."""
    content = read_toml(__file__, name)
    common = {key: value for key, value in content.items() if isinstance(value, str)}
    return {
        identifier: _finding(identifier, common | entry)
        for identifier, entry in content.items()
        if isinstance(entry, dict)
    }


def _finding(identifier: str, entry: Mapping[str, str]) -> Finding:
    texts = {
        key: PHRASES[value[1:]] if value.startswith("$") else value for key, value in entry.items()
    }
    return Finding(identifier, Severity(texts.pop("severity", Severity.WARNING)), **texts)


SUBJECTS: Final[Mapping[str, Mapping[str, Finding]]] = MappingProxyType(
    {
        "Files of all kinds": _read("files.toml"),
        "YAML": _read("yaml.toml"),
        "XML": _read("xml.toml"),
        "Manifests, chart values and compressed files": _read("envelopes.toml"),
        "ACLs and names, in all formats": _read("acls.toml"),
        "The structure of a queues.yaml": _read("queues_yaml.toml"),
        "ACLs and names in a queues.yaml": _read("acls_of_yunikorn.toml"),
        "Quotas and placement in a queues.yaml": _read("quotas_and_placement.toml"),
        "The files of a YARN cluster": _read("yarn.toml"),
        "fair-scheduler.xml": _read("fair_scheduler.toml"),
        "capacity-scheduler.xml": _read("capacity_scheduler.toml"),
        "Properties of Hadoop": _read("hadoop_properties.toml"),
        "YARN's rules that map applications to queues": _read("queue_mappings.toml"),
        "yarn-site.xml, and what decides instead of a scheduler's file": _read("yarn_site.toml"),
        "From YARN to YuniKorn": _read("convert.toml"),
        "spark-defaults.conf": _read("spark.toml"),
        "Kubernetes' RBAC": _read("kubernetes.toml"),
        "A policy and a list of users": _read("users.toml"),
        "Claims, and policy tests": _read("claims_and_tests.toml"),
        "Kinds of findings with other messages": _read("commands.toml"),
    }
)
FINDINGS: Final[Mapping[str, Finding]] = MappingProxyType(
    {identifier: each for table in SUBJECTS.values() for identifier, each in table.items()}
)


def finding(identifier: str, /, *, remedy: str = "", **fields: Any) -> Finding:
    """Return a finding with its fields filled in.

    Args:
        identifier: The identifier in the tables.
        remedy: The remedy for this case; empty to use the remedy in the table.
        fields: The fields of the message, and of the remedy in the table.
    """
    found = FINDINGS[identifier]
    return replace(
        found,
        message=found.message.format(**fields),
        remedy=remedy or found.remedy.format(**fields),
    )


def phrase(name: str, /, **fields: Any) -> str:
    """Return a phrase from `phrases.toml` with its fields filled in, such as a remedy."""
    return PHRASES[name].format(**fields)
