"""A command with `--config` reads the cluster's RBAC once, and bases its decision on it."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from queuegate.cli import main
from queuegate_server.server import offline
from tests.support.fakes.rbac_api import RbacApi, kubeconfig_of, running_rbac_api

QUESTION = ("root.localqueues.ml.training", "--group", "dev")
Run = Callable[[Callable[[], object]], None]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[RbacApi, Run]]:
    with running_rbac_api(tmp_path) as (api, _, run):
        run(api.role)
        run(lambda: api.bind("team", "ann"))
        yield api, run


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "queuegate.yaml"
    policy = {"kubernetes": {"kubeconfig": str(tmp_path / "kubeconfig")}}
    file.write_text(json.dumps({"policy": policy}))
    return str(file)


def test_bindings_decide_and_are_named(
    served: tuple[RbacApi, Run], config: str, capsys: Capture
) -> None:
    assert main(["explain", "--config", config, "ann", *QUESTION]) == 0
    assert "RoleBinding ml/team" in capsys.readouterr().out
    assert main(["check", "--config", config, "bob", *QUESTION]) == 1
    api, run = served
    run(lambda: api.bind("more", "bob"))
    assert main(["check", "--config", config, "bob", *QUESTION]) == 0


@pytest.mark.parametrize("status", [401, 403, 500])
def test_what_cannot_be_read_decides_nothing(
    served: tuple[RbacApi, Run], config: str, capsys: Capture, status: int
) -> None:
    api, run = served
    run(lambda: api.statuses.update(rolebindings=status))
    assert main(["check", "--config", config, "ann", *QUESTION]) == 3
    message = capsys.readouterr().err
    assert "rolebindings.rbac.authorization.k8s.io: " in message
    assert "ask a server (--address)" in message


def test_nobody_answers(tmp_path: Path, config: str, capsys: Capture) -> None:
    (tmp_path / "kubeconfig").write_text(kubeconfig_of("http://127.0.0.1:1"))
    assert main(["check", "--config", config, "ann", *QUESTION]) == 3
    assert "cannot connect to the API server" in capsys.readouterr().err


def test_an_answer_that_does_not_come(
    served: tuple[RbacApi, Run], config: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, run = served
    monkeypatch.setattr(offline, "_CLUSTER_SECONDS", 0.5)
    run(partial(setattr, api, "is_frozen", True))
    assert main(["check", "--config", config, "ann", *QUESTION]) == 3
    assert "RBAC was not read within 0.5 s" in capsys.readouterr().err
