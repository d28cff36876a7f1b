"""Random documents: queuegate loads what yunikorn-core loads, and refuses what it refuses."""

import json
import random
import subprocess
from pathlib import Path
from typing import Final

import pytest

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import load_policy
from tests.support import go_toolchain
from tests.support.generators.queues_documents import Generator
from tests.support.go_toolchain import BUILD_SECONDS, GoError

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
MODULE: Final = Path("integrations/yunikorn")
PROGRAM: Final = Path("build/yunikorn/verdicts").resolve()
DOCUMENTS: Final = 800
INVALID: Final = Path("tests/unit/formats/invalid")
CRASHES: Final = "because it begins with root"
"""Part of the only error about documents that yunikorn-core loads: with the first application,
it crashes. See docs/reference/yunikorn-deviations.md."""
DEVIATIONS: Final = {"colon_in_flow", "tag", "unknown_resolver"}
"""The small documents that yunikorn-core loads; the same page lists them."""


@pytest.fixture(scope="module")
def verdicts(go: Path) -> Path:
    """The program that loads documents with yunikorn-core."""
    try:
        go_toolchain.run("mod", "download", folder=MODULE)
        go_toolchain.run("build", "-o", str(PROGRAM), "./verdicts", folder=MODULE)
    except GoError as error:
        pytest.skip(f"yunikorn-core cannot be built: {error}")
    return PROGRAM


def yunikorn_errors(program: Path, documents: list[str]) -> list[str]:
    """Return yunikorn-core's error about each document; empty if it loads."""
    done = subprocess.run(
        [program],
        input="".join(f"{json.dumps(document)}\n" for document in documents),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def our_errors(document: str) -> list[Diagnostic]:
    found = load_policy("yunikorn", document.encode(), "queues.yaml").diagnostics
    return [diagnostic for diagnostic in found if diagnostic.severity is Severity.ERROR]


def test_random_documents(verdicts: Path) -> None:
    generator = Generator(random.Random(1))
    documents = [generator.document() for _ in range(DOCUMENTS)]
    loaded = 0
    for document, error in zip(documents, yunikorn_errors(verdicts, documents), strict=True):
        ours = our_errors(document)
        loaded += not error
        if not error and all(CRASHES in each.message for each in ours):
            continue
        assert bool(ours) == bool(error), (document, error, ours)
    assert DOCUMENTS // 10 < loaded < DOCUMENTS // 2


def test_small_documents(verdicts: Path) -> None:
    """Those of `tests/unit/formats/test_invalid_documents.py`, each with one kind of fault."""
    files = sorted(INVALID.glob("*.yaml"))
    documents = [file.read_text() for file in files]
    differ = {
        file.stem
        for file, document, error in zip(
            files, documents, yunikorn_errors(verdicts, documents), strict=True
        )
        if bool(our_errors(document)) != bool(error)
    }
    assert differ == DEVIATIONS
