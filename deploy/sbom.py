"""Write the SBOM of the packages that pip installed, as CycloneDX JSON, to standard output.

Its only sources are the reports of pip (`pip install --report`), which name each file with its hash
and its metadata, and for the image the Dockerfile, which names the base image, and the output of
`dpkg-query --show` in the image. The same input gives the same bytes: it contains no time, and its
serial number is derived from its content.
"""

import argparse
import json
import re
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterable
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
EXTRAS: Final = ("admission",)
"""The extras of the project that deploy/requirements.txt covers; the image has all of them."""
BASE: Final = re.compile(
    r"^FROM (?P<name>\w+):(?P<tag>\S+)@sha256:(?P<digest>[0-9a-f]{64})\s", re.MULTILINE
)


def main() -> None:
    """Read the reports and write the SBOM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    image_files = ("DOCKERFILE", "PACKAGES")
    parser.add_argument(
        "--image", type=Path, nargs=2, metavar=image_files, help="describe the image"
    )
    arguments = parser.parse_args()
    reports = [json.loads(path.read_text()) for path in arguments.reports]
    packages: dict[str, Any] = {
        canonicalize_name(each["metadata"]["name"]): each
        for report in reports
        for each in report["install"]
    }
    if arguments.image:
        dockerfile, debian = (path.read_text() for path in arguments.image)
        base = _base_image(dockerfile)
    components = {name: _component(name, each) for name, each in packages.items()}
    extras = packages[PROJECT]["metadata"]["provides_extra"] if arguments.image else EXTRAS
    edges = _edges(packages, extras, reports[0]["environment"])
    bom = Bom()
    root = components[PROJECT]
    if arguments.image:
        release = str(base.version).rpartition("-")[2]
        beside = [base, root, *(_debian_package(each, release) for each in debian.splitlines())]
        bom.components.update(beside)
        image = Component(name=PROJECT, version=root.version, type=ComponentType.CONTAINER)
        image.bom_ref.value = "image"
        bom.register_dependency(image, beside)
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
        purl=PackageURL("oci", None, name, f"sha256:{digest}", place),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


def _debian_package(line: str, release: str) -> Component:
    """Return the package of a line `NAME[:ARCHITECTURE]<TAB>VERSION`."""
    name, version = re.split(r"(?::\w+)?\t", line)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"debian/{name}@{version}",
        purl=PackageURL("deb", "debian", name, version, {"distro": release}),
    )


def _edges(
    packages: dict[str, Any], extras: Iterable[str], environment: dict[str, str]
) -> dict[str, set[str]]:
    """Return what each package requires of the others, with the extras that are asked for."""
    edges: dict[str, set[str]] = defaultdict(set)
    waiting = [(PROJECT, extra) for extra in ("", *extras)]
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
