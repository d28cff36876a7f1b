"""docs/reference/clients.md: its versions are those that are pinned, and its tests exist."""

import re
from pathlib import Path
from typing import Final

from tests.support import go_toolchain as go

PAGE: Final = Path("docs/reference/clients.md").read_text()
GRPC_JAVA: Final = r"<grpc\.version>(.+)</grpc\.version>"
ROWS: Final = re.findall(r"^\| (\S+) \| (.+) \| .+ \| `(\S+)::(\w+)` \|$", PAGE, re.MULTILINE)


def pinned() -> dict[str, str]:
    programs = (go.GHZ, go.GRPCURL, go.GRPC_HEALTH_PROBE, go.KUSTOMIZE, go.HELM, go.PROMTOOL)
    return {program.name: program.version for program in programs} | {
        "grpc-go": found("client/go/go.mod", r"google\.golang\.org/grpc (\S+)"),
        "grpc-java": found("examples/java/pom.xml", GRPC_JAVA),
        "@grpc/grpc-js": found("examples/node/package.json", r'"@grpc/grpc-js": "(.+)"'),
        "yunikorn-scheduler-interface": found(
            "examples/go-shim/go.mod", r"yunikorn-scheduler-interface (\S+)"
        ),
    }


def found(file: str, pattern: str) -> str:
    match = re.search(pattern, Path(file).read_text())
    assert match, file
    return match[1]


def test_versions() -> None:
    assert found("client/java/pom.xml", GRPC_JAVA) == found("examples/java/pom.xml", GRPC_JAVA)
    assert {client: version for client, version, _, _ in ROWS} == pinned()


def test_named_tests_exist() -> None:
    for *_, file, test in ROWS:
        assert f"\ndef {test}(" in Path("tests/e2e", file).read_text(), test
