"""`kubectl queuegate`, with a real kubectl and API server, as its page shows it."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.kube.cluster import ApiServer, program
from tests.support.documents import blocks
from tests.support.servers.queuegate_server import running_server

PAGE: Final = Path("docs/how-to/kubectl-plugin.md")
PLUGIN: Final = "kubectl-queuegate"
COMPLETION: Final = "kubectl_complete-queuegate"


class Kubectl:
    """Runs kubectl as a user, with the plugin on the path."""

    def __init__(self, folder: Path, api: ApiServer) -> None:
        self._folder = folder
        self._api = api
        kubectl = program("kubectl")
        if kubectl is None:
            pytest.skip("no kubectl here: `make kube-tools` builds it (Go, 15 min)")
        (folder / "kubectl").symlink_to(Path(kubectl).absolute())
        entries = tomllib.loads(Path("pyproject.toml").read_text())["project"]["scripts"]
        for name in (PLUGIN, COMPLETION):
            module, function = entries[name].split(":")
            script = folder / name
            script.write_text(
                f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\n"
                f"sys.exit({function}())\n"
            )
            script.chmod(0o755)

    def run(self, *arguments: str, user: str = "bob", address: str = "") -> tuple[int, str, str]:
        kubeconfig = self._folder / f"{user}.json"
        kubeconfig.write_text(self._api.kubeconfig(user) if user else "{}")
        environment = {
            **os.environ,
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "QUEUEGATE_ADDRESS": address,
        }
        done = subprocess.run(
            ["kubectl", *arguments],
            env=environment,
            executable=self._folder / "kubectl",
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def kubectl(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(tmp_path_factory.mktemp("bin"), cluster)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server("--policy", "examples/queues.yaml") as server:
        yield server.address


def test_the_page(kubectl: Kubectl, address: str) -> None:
    [page] = blocks(PAGE.read_text(encoding="utf-8"), "console")
    asked = re.findall(r"^\$ kubectl (.*)\n((?:[^$].*\n?)*)", page, re.MULTILINE)
    assert len(asked) == page.count("$ ") == 3
    for command, expected in asked:
        status, output, error = kubectl.run(*command.split(), address=address, user="bob")
        assert (status, output.strip(), error) == (0, expected.strip(), "")


def test_kubectl_lists_it(kubectl: Kubectl) -> None:
    _, output, _ = kubectl.run("plugin", "list")
    assert f"/{PLUGIN}\n" in output


def test_a_denial_is_its_exit_status(kubectl: Kubectl, address: str) -> None:
    status, output, _ = kubectl.run(
        "queuegate", "check", "root.analytics", user="alice", address=address
    )
    assert status == 1
    assert output.startswith("denied: alice may not submit to root.analytics: ")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_its_help_names_the_plugin(kubectl: Kubectl, option: str) -> None:
    """And needs no API server."""
    status, output, _ = kubectl.run("queuegate", "check", "root.a", option, user="")
    assert status == 0
    assert output.startswith("Usage: kubectl queuegate check [OPTIONS] [USER] QUEUE\n")
    assert "\n  kubectl queuegate check sue root.analytics.reports\n" in output
    _, overview, _ = kubectl.run("queuegate", option, user="")
    assert "`kubectl auth whoami`" in overview


def test_without_an_api_server_there_is_no_user_and_no_answer(
    kubectl: Kubectl, address: str
) -> None:
    status, output, error = kubectl.run(
        "queuegate", "check", "root.sandbox", user="", address=address
    )
    assert (status, output) == (2, "")
    assert error.startswith("Error: cannot determine USER: `kubectl auth whoami` failed: ")
    assert error.endswith(": pass USER\n")


def test_nothing_but_the_user_may_be_omitted(kubectl: Kubectl, address: str) -> None:
    status, _, error = kubectl.run("queuegate", "check", address=address)
    assert status == 2
    assert "Missing argument 'USER'" in error
    status, _, error = kubectl.run("queuegate", "invalidate", address=address)
    assert status == 2
    assert "name the users to invalidate" in error


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ex"], {"explain"}),
        (["check", "--access", ""], {"submit", "admin"}),
        (["check", "--pol"], {"--policy"}),
        (["check", ""], set()),
    ],
)
def test_kubectl_completes_its_commands(
    kubectl: Kubectl, words: list[str], expected: set[str]
) -> None:
    status, output, _ = kubectl.run("__complete", "queuegate", *words)
    *found, directive = output.splitlines()
    assert status == 0
    assert {each.partition("\t")[0] for each in found} == expected
    assert directive == ":4"
