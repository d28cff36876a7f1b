"""The wheel, installed the way a shim installs it: without the server's extra."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.e2e.packaging.dockerfile import PROJECT, environment
from tests.e2e.packaging.locks import pinned

# The first test waits for the installation.
pytestmark = pytest.mark.timeout(300)

SERVER_ONLY = ("click", "grpc_health", "pydantic", "structlog", "uvloop", "watchfiles", "yaml")


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
    } <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {each.name for each in requirements if each.marker is None}
    assert always == {"googleapis-common-protos", "grpcio", "protobuf"}


def test_client_works_without_the_server(plain: Path) -> None:
    result = run(plain / "python", "-W", "error", "-c", "import queuegate, queuegate.aio")
    assert (result.returncode, result.stderr) == (0, "")
    result = run(plain / "queuegate", "--help")
    assert result.returncode == 0
    assert "check" in result.stdout
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
