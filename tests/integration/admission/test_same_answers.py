"""The webhook and `queuegate check` give the same answers about the same queues."""

import functools
import http
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuegate.cli import main
from queuegate.cli.problems import Exit
from tests.support.queue_reviews import PLACE, body
from tests.support.rows import table
from tests.support.servers.webhook import Webhook, running_webhook

# YuniKorn's test resolver knows the first four; it has no groups for the fifth, an error.
USERS = (*(f"testuser{number}" for number in range(1, 6)), "alice", "nobody", "*", "a b")
POLICY: str = table(__file__, "POLICY")
QUEUES = (
    *("root", "root.open", "root.closed", "root.named", "root.team", "root.team.night"),
    *("root.team.parent", "root.team.parent.leaf", "root.missing", "root.open.missing"),
    *("root.team.missing.too", "ROOT.Open", "open", "root..open", "root.", "root.@recovery@", "*"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webhook")
    (folder / "queues.yaml").write_text(POLICY)
    content = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"users": {"type": "test"}},
        "partitions": {"default": {"resolver": "users", "acl_names": "any"}},
        "admission": {"queues": {"mode": "deny", "schedulers": {"places": [{"label": PLACE}]}}},
    }
    (folder / "queuegate.yaml").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def checking(folder: Path) -> Iterator[Webhook]:
    with running_webhook(folder, "--config", str(folder / "queuegate.yaml")) as webhook:
        yield webhook


@pytest.fixture(scope="module")
def check(folder: Path) -> Callable[[str, str], Exit]:
    """The command `queuegate check`, with the settings of the webhook."""

    @functools.cache
    def run(user: str, queue: str) -> Exit:
        arguments = ["check", "--config", str(folder / "queuegate.yaml"), "--", user, queue]
        return Exit(main(arguments))

    return run


@st.composite
def objects(draw: st.DrawFn, queues: Sequence[str]) -> Any:
    """Return an object that names each of the queues, at random depths."""
    parts: list[Any] = []
    for queue in queues:
        part: Any = {"metadata": {draw(st.sampled_from(["labels", "annotations"])): {PLACE: queue}}}
        for name in draw(st.lists(st.sampled_from(["spec", "template", "items"]), max_size=4)):
            part = {name: [part] if draw(st.booleans()) else part}
        parts.append(part)
    return {"apiVersion": "example.com/v1", "kind": "Run", "spec": parts}


def answer(webhook: Webhook, user: str, new: Any) -> Exit:
    """Return the answer to the creation of an object, as an exit code of the command."""
    headers = {"Content-Type": "application/json"}
    response = webhook.http.post("/queues", content=body(user, new), headers=headers)
    if response.status_code == http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return Exit.NO_ANSWER
    assert response.status_code == http.HTTPStatus.OK, response.text
    return Exit.OK if response.json()["response"]["allowed"] else Exit.NO


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_same_answers(
    checking: Webhook, check: Callable[[str, str], Exit], data: st.DataObject
) -> None:
    user = data.draw(st.sampled_from(USERS))
    queues = data.draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=4))
    checks = {check(user, queue) for queue in queues}
    expected = Exit.OK
    if checks & {Exit.NO, Exit.WRONG}:
        expected = Exit.NO  # the command calls a name that no queue can have wrong
    elif Exit.NO_ANSWER in checks:
        expected = Exit.NO_ANSWER
    assert answer(checking, user, data.draw(objects(queues))) is expected


def test_all_answers_occur(check: Callable[[str, str], Exit]) -> None:
    answers = {(user, queue): check(user, queue) for user in USERS for queue in QUEUES}
    assert set(answers.values()) == {Exit.OK, Exit.NO, Exit.WRONG, Exit.NO_ANSWER}
    assert answers["testuser1", "root.team"] is Exit.OK
    assert answers["testuser2", "root.team"] is Exit.NO
    assert answers["testuser5", "root.team"] is Exit.NO_ANSWER
    assert answers["testuser5", "root.named"] is Exit.OK
