"""The Dockerfile: linted, and its build stage carried out without a Docker engine."""

import json
import re
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.packaging import sbom
from tests.e2e.packaging.dockerfile import PROJECT, instructions, stage
from tests.support.eventually import eventually

# The first test waits for the installation.
pytestmark = pytest.mark.timeout(300)

TEXT = (PROJECT / "Dockerfile").read_text()
FINAL = stage(TEXT, "")


def only(instruction: str) -> str:
    """Return the argument of an instruction that the final stage has once."""
    [argument] = [found for name, found in FINAL if name == instruction]
    return argument


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    result = subprocess.run(
        [hadolint, "--no-color", "--failure-threshold", "style", "-"],
        input=TEXT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert "hadolint ignore" not in TEXT
    assert not list(PROJECT.glob(".hadolint*"))


def base() -> str:
    """The image that the first stage begins with."""
    froms = [argument.partition(" AS ") for name, argument in instructions(TEXT) if name == "FROM"]
    stages = {name for _, _, name in froms}
    outside = [base for base, _, _ in froms if base not in stages]
    [image] = outside
    return image


def test_base_is_pinned_to_a_full_version_and_digest() -> None:
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base())


def test_final_stage_runs_no_command_and_is_not_root() -> None:
    assert "RUN" not in dict(FINAL)
    assert only("USER") == "65532:65532"


def test_entry_points_are_in_exec_form() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["queuegate-server"]
    assert json.loads(only("CMD")) == ["serve"]
    assert json.loads(only("HEALTHCHECK").partition("CMD ")[2]) == ["queuegate", "health"]


def test_context_holds_what_is_copied_and_no_more() -> None:
    admitted = {
        line.removeprefix("!")
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for name, argument in stage(TEXT, "build")
        if name == "COPY"
        for source in argument.split()[:-1]
    }
    assert admitted == copied | {"deploy"}


@pytest.fixture
def image_environment(image_root: Path) -> dict[str, str]:
    variables = {"PATH": "/usr/bin:/bin"}
    for pair in only("ENV").split():
        name, _, value = pair.partition("=")
        variables[name] = value.replace("/opt", f"{image_root}/opt").replace(
            "$PATH", variables["PATH"]
        )
    return variables


@pytest.fixture
def serving(image_root: Path, image_environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of a server started as the image starts it."""
    command = [*json.loads(only("ENTRYPOINT")), *json.loads(only("CMD"))]
    program = image_root / "opt/queuegate/bin" / command[0]
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [program, *command[1:]],
            env=image_environment | {"QUEUEGATE_LISTEN": "127.0.0.1:0"},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.rpartition(" ")[2].strip()
        assert address, log.read_text()
        yield address
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("script", ["queuegate", "queuegate-server"])
def test_scripts_run(script: str, image_root: Path, image_environment: dict[str, str]) -> None:
    program = image_root / "opt/queuegate/bin" / script
    output = subprocess.check_output([program, "--version"], env=image_environment, text=True)
    assert "0.1.0" in output


def test_serves_and_is_healthy_and_writes_nothing(
    image_root: Path, image_environment: dict[str, str], serving: str
) -> None:
    before = files(image_root)
    health = json.loads(only("HEALTHCHECK").partition("CMD ")[2])

    def status() -> int:
        return subprocess.run(
            [image_root / "opt/queuegate/bin" / health[0], *health[1:]],
            env=image_environment | {"QUEUEGATE_ADDRESS": serving},
            check=False,
            stdout=subprocess.DEVNULL,
        ).returncode

    # As Docker does: a busy machine may need longer than the second that a probe has.
    eventually(status, 0)
    assert files(image_root) == before


def files(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*")}


def test_sbom_lists_what_is_installed_and_the_base(image_root: Path) -> None:
    found = sbom.read((image_root / "opt/queuegate/sbom.cdx.json").read_text())
    [packages] = (image_root / "opt/queuegate/lib").glob("python*/site-packages")
    assert found.packages == sbom.installed(packages)
    lock = PROJECT / "deploy" / "requirements.txt"
    # The project's own wheel is in no lock: it was built beside the SBOM.
    assert found.wrong_hashes(lock) == ["queuegate"]
    components = {each["bom-ref"]: each for each in found.document["components"]}
    [wheel] = (image_root / "src/dist").glob("*.whl")
    own = components[f"queuegate@{found.packages['queuegate']}"]
    assert (sbom.file_name(own), sbom.sha256(own)) == (wheel.name, sbom.digest(wheel))
    python = components["base-image"]
    assert f"{python['name']}:{python['version']}@sha256:{sbom.sha256(python)}" == base()
    assert found.reachable() == {*components, "image"}


def test_bytecode_is_compiled_and_no_installer_is_left(image_root: Path) -> None:
    [packages] = (image_root / "opt/queuegate/lib").glob("python*/site-packages")
    assert list((packages / "queuegate_server/__pycache__").glob("engine.*.pyc"))
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("setuptools*"))
    assert not list(packages.glob("hatchling*"))
