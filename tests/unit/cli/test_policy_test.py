"""`queuegate-server test`: tests of policies."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuegate.cli.offline_files import LocalFiles, offline_client
from queuegate_server.cli.policy_test import policy_test

POLICY = (
    "partitions: [{queues: [{name: root, adminacl: boss, queues: "
    "[{name: a, submitacl: 'sue g1'}, {name: b, submitacl: '*'}]}]}]\n"
)
TESTS = """\
policy: queues.yaml
users: {sue: [], bob: [g1], eve: }
tests:
  - {name: both, user: [sue, bob], queue: root.a, allowed: true}
  - {user: eve, queue: root.a, allowed: false, reason: unknown_user}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(POLICY)
    (tmp_path / "some_test.yaml").write_text(TESTS)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(policy_test, list(arguments))


QUESTIONS = st.tuples(
    st.sampled_from(["sue", "bob", "boss", "eve", "a:b#1"]),
    st.sampled_from(["root", "root.a", "root.b", "root.a.new", "root.new", "root.@recovery@"]),
    st.sampled_from(["submit", "admin"]),
    st.lists(st.sampled_from(["g1", "g2"]), unique=True, max_size=2),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(QUESTIONS, min_size=1, max_size=5))
def test_a_test_generated_from_any_decision_passes(
    folder: Path, asked: list[tuple[str, str, str, list[str]]]
) -> None:
    groups = {user: [*found, "other"] for user, _, _, found in asked}
    tests = []
    with offline_client(LocalFiles("queues.yaml"), 60) as client:
        for user, queue, access, _ in asked:
            decision = client.check(user, queue, access=access, groups=groups[user])  # type: ignore[arg-type]
            tests.append(
                {
                    "user": user,
                    "queue": queue,
                    "access": access,
                    "allowed": decision.allowed,
                    "reason": str(decision.reason),
                    "matched_queue": decision.matched_queue,
                    "matched_subject": decision.matched_subject,
                    "evaluated_queue": decision.evaluated_queue,
                }
            )
    content = {"policy": "queues.yaml", "users": groups, "tests": tests}
    (folder / "some_test.yaml").write_text(yaml.safe_dump(content))
    done = run(".")
    assert done.exit_code == 0, done.output
    for test in tests:
        test["allowed"] = not test["allowed"]
    (folder / "some_test.yaml").write_text(yaml.safe_dump(content))
    assert run(".").exit_code == 1
