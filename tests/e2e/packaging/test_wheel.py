"""The wheel, installed the way a shim installs it: without the server's extra."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.e2e.packaging import sbom
from tests.e2e.packaging.dockerfile import PROJECT, environment
from tests.e2e.packaging.locks import pinned

# The first test waits for the installation.
pytestmark = pytest.mark.timeout(300)

SERVER_ONLY = ("grpc_health", "pydantic", "structlog", "uvloop", "yaml")


@pytest.fixture(scope="session")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with a plain install."""
    root = tmp_path_factory.mktemp("plain")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    # The lock's versions, so that this asks for nothing that is not at hand already.
    pins = root / "pins.txt"
    lock = pinned(PROJECT / "deploy" / "requirements.txt")
    pins.write_text("".join(f"{name}=={pin}\n" for name, pin in lock.items()))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            root,
            "install",
            "--quiet",
            "--no-compile",
            "--constraint",
            pins,
            wheel,
        ],
        env=environment(),
        check=True,
    )
    return root / "bin"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin"}, cwd="/", text=True, capture_output=True, check=False
    )


def test_holds_both_packages_typed_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "queuegate",
        "queuegate_server",
        f"queuegate-{version('queuegate')}.dist-info",
    }
    assert {"queuegate/py.typed", "queuegate_server/py.typed"} <= set(names)
    assert {
        "queuegate/v1/access_pb2.pyi",
        "queuegate_server/policystore/default_queues.yaml",
        "queuegate_server/console/static/console.css",
        "queuegate_server/console/static/htmx-2.0.11.min.js",
        "queuegate_server/console/templates/base.html",
    } <= set(names)
    for text in ("LICENSE", "server/queuegate_server/console/static/htmx-2.0.11.LICENSE"):
        assert any(name.endswith(f"/licenses/{text}") for name in names)


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0 AND 0BSD"
    assert metadata["Requires-Python"] == ">=3.11"
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {each.name for each in requirements if each.marker is None}
    assert always == {"click", "googleapis-common-protos", "grpcio", "protobuf"}


def test_client_works_without_the_server(plain: Path) -> None:
    result = run(plain / "python", "-W", "error", "-c", "import queuegate, queuegate.aio")
    assert (result.returncode, result.stderr) == (0, "")
    result = run(plain / "queuegate", "--help")
    assert result.returncode == 0
    assert "check" in result.stdout
    plugin = run(plain / "kubectl-queuegate", "check", "--help")
    assert plugin.stdout.startswith("Usage: kubectl queuegate check")
    assert run(plain / "kubectl_complete-queuegate", "ex").stdout.startswith("explain\t")
    assert run(plain / "queuegate", "--version").stdout.strip().endswith(version("queuegate"))


@pytest.mark.parametrize("module", SERVER_ONLY)
def test_no_dependency_of_the_server_is_installed(plain: Path, module: str) -> None:
    result = run(plain / "python", "-c", f"import {module}")
    assert "ModuleNotFoundError" in result.stderr


@pytest.mark.parametrize("arguments", [(), ("serve",), ("--version",)])
def test_server_says_what_to_install(plain: Path, arguments: tuple[str, ...]) -> None:
    result = run(plain / "queuegate-server", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "pip install 'queuegate[server]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_checkout_is_installed_as_the_readme_says(tmp_path: Path) -> None:
    readme = (PROJECT / "README.md").read_text()
    for path in (".", ".[server]"):
        assert f"pip install '{path}'" in readme or f"`pip install {path}`" in readme
        target = tmp_path / path
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", target)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install")
        subprocess.run([*pip, *options, path], cwd=PROJECT, env=environment(), check=True)
        assert (target / "bin" / "queuegate").exists()
        assert (target / "queuegate_server").is_dir()


def test_deciding_without_a_server_says_what_to_install(plain: Path) -> None:
    policy = PROJECT / "examples" / "queues.yaml"
    result = run(plain / "queuegate", "check", "sue", "root", "--policy", policy)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith(": pip install 'queuegate[server]'\n")
    assert "is missing" in result.stderr


def test_wheel_is_reproducible(wheel: Path, tmp_path: Path) -> None:
    """Built by another program, at another time."""
    hatchling = Path(sys.executable).parent / "hatchling"
    command: list[Path | str] = [hatchling, "build", "--target", "wheel", "--directory", tmp_path]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.fixture(scope="session")
def reports(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return pip's reports for the lock file and for the wheel alone, as in `make dist`."""
    folder = tmp_path_factory.mktemp("reports")
    lock = PROJECT / "deploy" / "requirements.txt"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    options = ("--dry-run", "--ignore-installed", "--no-deps", "--report")
    found = [folder / "dependencies.json", folder / "own.json"]
    contents: tuple[list[Path | str], ...] = (["--require-hashes", "-r", lock], [wheel])
    for report, what in zip(found, contents, strict=True):
        subprocess.run([*pip, *options, report, *what], env=environment(), check=True)
    return found


def write_sbom(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    program = PROJECT / "deploy" / "sbom.py"
    return run(sys.executable, program, *arguments)


def test_sbom_of_the_wheel_lists_what_it_brings(wheel: Path, reports: list[Path]) -> None:
    text = write_sbom(*reports).stdout
    assert write_sbom(*reports).stdout == text
    found = sbom.read(text)
    described = found.document["metadata"]["component"]
    assert (described["name"], described["version"]) == ("queuegate", version("queuegate"))
    assert (sbom.file_name(described), sbom.sha256(described)) == (wheel.name, sbom.digest(wheel))
    lock = PROJECT / "deploy" / "requirements.txt"
    # All of the lock but what other interpreters or systems need.
    assert found.packages.items() <= pinned(lock).items()
    needed = {name for name in pinned(lock) if name in installed_here()}
    assert set(found.packages) == needed
    assert found.wrong_hashes(lock) == []
    references = {each["bom-ref"] for each in found.document["components"]}
    assert found.reachable() == references | {described["bom-ref"]}


def installed_here() -> set[str]:
    """The packages of the environment of the tests, which has all of the lock."""
    return set(sbom.installed(Path(sysconfig.get_path("purelib"))))


def test_sbom_shows_what_changed(reports: list[Path], tmp_path: Path) -> None:
    text = write_sbom(*reports).stdout
    changed = tmp_path / "changed.json"
    document = json.loads(reports[0].read_text())
    hashes = document["install"][0]["download_info"]["archive_info"]["hashes"]
    hashes["sha256"] = "0" * 64
    changed.write_text(json.dumps(document))
    other = sbom.read(write_sbom(changed, reports[1]).stdout)
    assert other.document["serialNumber"] != sbom.read(text).document["serialNumber"]
    name = document["install"][0]["metadata"]["name"]
    assert other.wrong_hashes(PROJECT / "deploy" / "requirements.txt") == [name]


def test_sbom_of_an_image_needs_the_digest_of_its_base(reports: list[Path], tmp_path: Path) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM python:3.13.1-slim AS python\n")
    packages = tmp_path / "debian-packages"
    packages.write_text("libc6:amd64\t2.41-12\n")
    result = write_sbom("--image", dockerfile, packages, *reports)
    assert (result.returncode, result.stdout) == (1, "")
    assert "names no base image by digest" in result.stderr
