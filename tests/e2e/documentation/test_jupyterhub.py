"""docs/how-to/ask-over-http.md: KubeSpawner offers each user the queues that the server names."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.documentation.other_programs import INSTALL_SECONDS, python_with, write_block
from tests.support.servers.http_port import LISTEN, http_address
from tests.support.servers.queuegate_server import running_server

KUBESPAWNER: Final = "jupyterhub-kubespawner==7.1.0"
KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}
"""Of a cluster that does not exist, because a list of profiles needs none."""
_PROGRAM: Final = Path(__file__).with_name("kubespawner_profiles.py")

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install JupyterHub's spawner for Kubernetes in an environment of its own."""
    return python_with(KUBESPAWNER, tmp_path_factory.mktemp("jupyterhub") / "venv")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server("--policy", "examples/queues.yaml", *LISTEN) as server:
        yield f"http://{http_address(server)}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = write_block("docs/how-to/ask-over-http.md", tmp_path / "jupyterhub_config.py")
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    return file


def offered(python: Path, config: Path, url: str, *names: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [str(python), str(_PROGRAM), str(config), *names],
        env={
            **os.environ,
            "QUEUEGATE_URL": url,
            "KUBECONFIG": str(config.with_name("kubeconfig")),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_each_user_is_offered_the_own_queues(python: Path, config: Path, url: str) -> None:
    sue, zoe = offered(python, config, url, "sue", "zoe")
    assert sue == {
        "profiles": ["root.analytics.reports", "root.sandbox"],
        "shown": True,
        "labels": {"queue": "root.analytics.reports"},
        "refused": True,
    }
    assert zoe["profiles"] == ["root.sandbox"]


def test_without_an_answer_nothing_is_offered(python: Path, config: Path) -> None:
    [nobody] = offered(python, config, "http://127.0.0.1:9", "sue")
    assert "error" in nobody
