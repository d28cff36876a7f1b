"""Reads an SBOM, and compares it with what is installed."""

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from tests.e2e.packaging.dockerfile import WHEELS
from tests.e2e.packaging.locks import hashes


@dataclass(frozen=True)
class Sbom:
    document: dict[str, Any]

    @property
    def packages(self) -> dict[str, str]:
        """The versions of the Python packages by name, without the one that it describes."""
        return {each["name"]: each["version"] for each in self._packages}

    @property
    def _packages(self) -> list[dict[str, Any]]:
        return [each for each in self.document["components"] if "pkg:pypi/" in each["purl"]]

    def wrong_hashes(self, lock: Path) -> list[str]:
        """Return the packages whose hash is not that of the locked file that is named."""
        pinned = hashes(lock)
        return [
            each["name"]
            for each in self._packages
            if sha256(each) not in pinned.get(each["name"], ())
            or (WHEELS.is_dir() and sha256(each) != digest(WHEELS / file_name(each)))
        ]

    def reachable(self) -> set[str]:
        """Return the references of all components that the described one requires."""
        edges = {each["ref"]: each.get("dependsOn", []) for each in self.document["dependencies"]}
        waiting = [self.document["metadata"]["component"]["bom-ref"]]
        found: set[str] = set()
        while waiting:
            reference = waiting.pop()
            if reference not in found:
                found.add(reference)
                waiting += edges[reference]
        return found


def read(text: str) -> Sbom:
    """Return an SBOM, which must be valid."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    assert "timestamp" not in document["metadata"]
    return Sbom(document)


def sha256(component: dict[str, Any]) -> str:
    [found] = component["hashes"]
    assert found["alg"] == "SHA-256"
    return str(found["content"])


def file_name(component: dict[str, Any]) -> str:
    [name] = parse_qs(str(component["purl"]).partition("?")[2])["file_name"]
    return name


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def installed(packages: Path) -> dict[str, str]:
    """Return the versions of what is installed in a folder `site-packages`, by name."""
    found = distributions(path=[str(packages)])
    return {str(canonicalize_name(each.metadata["Name"])): each.version for each in found}
