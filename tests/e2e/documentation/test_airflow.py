"""docs/how-to/ask-over-http.md: Airflow loads no DAG whose owner may not submit to its queue."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.documentation.other_programs import INSTALL_SECONDS, python_with, write_block
from tests.support.servers.http_port import LISTEN, http_address
from tests.support.servers.queuegate_server import running_server

AIRFLOW: Final = "apache-airflow==3.3.2"
DAG: Final = """\
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("{owner}", schedule=None):
    EmptyOperator(task_id="report", owner="{owner}", queue="root.analytics.reports")
"""
_PROGRAM: Final = Path(__file__).with_name("airflow_dags.py")

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install Airflow in an environment of its own."""
    return python_with(AIRFLOW, tmp_path_factory.mktemp("airflow") / "venv")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of Airflow with the page's policy, and a DAG for each of two owners."""
    write_block("docs/how-to/ask-over-http.md", tmp_path / "config" / "airflow_local_settings.py")
    folder = tmp_path / "dags"
    folder.mkdir()
    for owner in ("sue", "zoe"):
        (folder / f"{owner}.py").write_text(DAG.format(owner=owner))
    return tmp_path


def loaded(python: Path, home: Path, url: str) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), str(_PROGRAM), str(home / "dags")],
        env={**os.environ, "AIRFLOW_HOME": str(home), "QUEUEGATE_URL": url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_an_owner_who_may_not_submit(python: Path, home: Path) -> None:
    with running_server("--policy", "examples/queues.yaml", *LISTEN) as server:
        found = loaded(python, home, f"http://{http_address(server)}")
    assert found["dags"] == ["sue"]
    [error] = found["errors"].values()
    assert "zoe may not submit to root.analytics.reports" in error


def test_without_an_answer_nothing_is_loaded(python: Path, home: Path) -> None:
    found = loaded(python, home, "http://127.0.0.1:9")
    assert found["dags"] == []
    assert len(found["errors"]) == 2
