"""Commands that decide without a server answer as one does."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate.cli.offline_files import LocalFiles, offline_client
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

DOCUMENTS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policy") / "queues.yaml"
    file.write_text(DOCUMENTS[0]["yaml"])
    return file


@pytest.fixture(scope="module")
def server(policy: Path) -> Iterator[RunningServer]:
    with running_server("--policy", str(policy), *ADMIN) as started:
        yield started


def outcome(ask: Callable[[], Any]) -> object:
    """Return an answer without the number of the revision, or an exception as text."""
    try:
        answer = ask()
    except ValueError as error:
        return repr(error)
    except queuegate.QueuegateError as error:
        return repr(error), error.code, error.reason, getattr(error, "violations", None)
    if isinstance(answer, queuegate.Decision):
        return replace(answer, policy_revision=0)
    if isinstance(answer, queuegate.Explanation):
        return replace(answer, decision=replace(answer.decision, policy_revision=0))
    return answer


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["id"])
def test_queue_vectors(document: dict[str, Any], server: RunningServer, policy: Path) -> None:
    policy.write_text(document["yaml"])
    with (
        queuegate.Client(server.address, timeout=60) as online,
        offline_client(LocalFiles(str(policy)), 60) as offline,
    ):
        assert online.reload()
        for asked in document["questions"]:
            user, queue = asked["user"], asked["queue"]
            how = {key: asked[key] for key in ("partition", "access", "groups")}
            for method, arguments in (
                ("check", (user, queue)),
                ("explain", (user, queue)),
                ("list_queues", (user,)),
            ):
                answers = [
                    outcome(lambda: getattr(client, method)(*arguments, **how))  # noqa: B023
                    for client in (online, offline)
                ]
                assert answers[0] == answers[1], (method, asked)
