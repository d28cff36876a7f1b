"""Writes the SBOM of what pip installed, as CycloneDX JSON, to standard output.

Its only sources are the reports of pip (`pip install --report`), which name each file with its hash
and its metadata, and the Dockerfile, which names the base image. The same input makes the same
bytes: there is no time in it, and its serial number is made from its content.
"""

import argparse
import json
import re
import sys
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = "queuegate"
EXTRAS: Final = frozenset({"admission"})
"""The extras of the project that deploy/requirements.txt is made for."""
BASE: Final = re.compile(
    r"^FROM (?P<name>\w+):(?P<tag>\S+)@sha256:(?P<digest>[0-9a-f]{64})\s", re.MULTILINE
)


def main() -> None:
    """Read the reports and write the SBOM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    parser.add_argument("--image", type=Path, metavar="DOCKERFILE", help="describe the image")
    arguments = parser.parse_args()
    reports = [json.loads(path.read_text()) for path in arguments.reports]
    packages: dict[str, Any] = {
        canonicalize_name(each["metadata"]["name"]): each
        for report in reports
        for each in report["install"]
    }
    components = {name: _component(name, each) for name, each in packages.items()}
    edges = _edges(packages, reports[0]["environment"])
    bom = Bom()
    root = components[PROJECT]
    if arguments.image:
        base = _base_image(arguments.image.read_text())
        bom.components.update([base, root])
        image = Component(name=PROJECT, version=root.version, type=ComponentType.CONTAINER)
        image.bom_ref.value = "image"
        bom.register_dependency(image, [base, root])
        bom.metadata.component = image
    else:
        bom.metadata.component = root
    bom.components.update(each for each in components.values() if each is not root)
    for name, component in components.items():
        bom.register_dependency(component, [components[each] for each in edges[name]])
    sys.stdout.write(_text(bom))


def _component(name: str, package: dict[str, Any]) -> Component:
    metadata, source = package["metadata"], package["download_info"]
    file, digest = source["url"].rpartition("/")[2], source["archive_info"]["hashes"]["sha256"]
    purl = PackageURL("pypi", None, name, metadata["version"], {"file_name": unquote(file)})
    expression = metadata.get("license_expression")
    return Component(
        name=name,
        version=metadata["version"],
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}@{metadata['version']}",
        purl=purl,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        licenses=[LicenseExpression(expression)] if expression else [],
    )


def _base_image(dockerfile: str) -> Component:
    found = BASE.search(dockerfile)
    if found is None:
        sys.exit("the Dockerfile names no base image by digest: FROM NAME:TAG@sha256:DIGEST")
    name, tag, digest = found.group("name", "tag", "digest")
    place = {"repository_url": f"docker.io/library/{name}", "tag": tag}
    return Component(
        name=name,
        version=tag,
        type=ComponentType.CONTAINER,
        bom_ref="base-image",
        description="The base image; its own SBOM lists its Debian packages.",
        purl=PackageURL("oci", None, name, f"sha256:{digest}", place),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


def _edges(packages: dict[str, Any], environment: dict[str, str]) -> dict[str, set[str]]:
    """Return what each package requires of the others, with the extras that are asked for."""
    edges: dict[str, set[str]] = defaultdict(set)
    waiting = [(PROJECT, extra) for extra in ("", *EXTRAS)]
    done = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        for text in packages[name]["metadata"].get("requires_dist", ()):
            required = Requirement(text)
            other = canonicalize_name(required.name)
            if required.marker and not required.marker.evaluate(environment | {"extra": extra}):
                continue
            if other != name:
                edges[name].add(other)
            further = {(other, each) for each in ("", *required.extras)} - done
            waiting += further
            done |= further
    return edges


def _text(bom: Bom) -> str:
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
