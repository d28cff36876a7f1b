"""`queuegate-server test`: tests of policies."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuegate.cli.offline import offline_client
from queuegate.exceptions import InvalidArgument
from queuegate_server.cli.policy_test import policy_test

POLICY = (
    "partitions: [{queues: [{name: root, adminacl: boss, queues: "
    "[{name: a, submitacl: 'sue g1'}, {name: b, submitacl: '*'}]}]}]\n"
)
_CREATING = "".join(
    f"<property><name>yarn.scheduler.capacity.root.{name}</name><value>{value}</value></property>"
    for name, value in {
        "queues": "flex,managed",
        "acl_submit_applications": " ",
        "acl_administer_queue": " ",
        "managed.auto-create-child-queue.enabled": "true",
        "managed.leaf-queue-template.acl_submit_applications": "alice",
        "flex.queues": "pay",
        "flex.pay.acl_submit_applications": "*",
        "flex.auto-queue-creation-v2.enabled": "true",
        "flex.auto-queue-creation-v2.template.acl_submit_applications": "alice",
    }.items()
)
CREATING = f"<configuration>{_CREATING}</configuration>"
"""Below two of the queues, YARN creates others, one level or two."""
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


def test_all_pass() -> None:
    done = run(".")
    assert done.stdout == (
        "some_test.yaml\n  ✓ both\n  ✓ eve submit root.a\n2 tests, 3 checks: 0 failed\n"
    )
    assert done.exit_code == 0


def test_a_note_names_partitions_whose_groups_no_server_would_resolve(folder: Path) -> None:
    note = (
        'note: some_test.yaml: partition "default" has no resolver: without groups in the request,'
        " a server gives each user one group, named after the user\n"
    )
    config, by_name = folder / "queuegate.yaml", "partitions: {default: {resolver: corp}}\n"
    assert run(".").stderr == note
    assert run("-o", "github", ".").output == note
    (folder / "queues.yaml").write_text(POLICY.replace("[{q", "[{usergroupresolver: {type: os}, q"))
    assert run(".").stderr == ""
    (folder / "queues.yaml").write_text(POLICY)
    (folder / "some_test.yaml").write_text(f"config: queuegate.yaml\n{TESTS}")
    for kind, stderr in (("none", note), ("os", "")):
        config.write_text(f"resolvers: {{corp: {{type: {kind}}}}}\n{by_name}")
        done = run(".")
        assert (done.stderr, done.exit_code) == (stderr, 0), kind


def test_without_a_resolver_a_server_knows_no_groups_of_yarn(folder: Path) -> None:
    (folder / "fair-scheduler.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps> a</aclSubmitApps></queue></allocations>"
    )
    (folder / "some_test.yaml").write_text(
        "policy: fair-scheduler.xml\nusers: {eve: }\n"
        "tests: [{user: eve, queue: root, allowed: false}]\n"
    )
    assert run(".").stderr.endswith("a server gives each user no groups\n")


def test_tests_are_not_read_from_standard_input() -> None:
    done = run("-")
    assert done.stderr.startswith("Error: -: tests must be in a file")
    assert done.exit_code == 2


@pytest.mark.parametrize("output", ["json", "sarif", "github"])
def test_a_file_that_is_not_valid_for_programs(folder: Path, output: str) -> None:
    (folder / "queues.yaml").write_text("partitions: [\n")
    done = run("-o", output, ".")
    assert done.exit_code == 2
    assert "queues.yaml" in done.stdout
    assert "invalid YAML" in done.stdout
    if output == "json":
        document = json.loads(done.stdout)
        assert document["diagnostics"][0]["line"] == 2
        assert document["error"]["message"].startswith("some_test.yaml: the policy cannot be load")


def test_a_failure_has_its_place_and_an_explanation(folder: Path) -> None:
    (folder / "some_test.yaml").write_text(TESTS.replace("allowed: true", "allowed: false"))
    done = run("some_test.yaml", "--junit", "junit.xml")
    assert done.exit_code == 1
    place = "some_test.yaml:4:60"
    assert "  ✗ both\n" in done.stdout
    assert (
        f"    {place}: error: sue submit root.a: allowed is true, expected false\n" in done.stdout
    )
    assert "lists the group g1" in done.stdout
    assert "groups: g1 (just resolved; from the test file)\n" in done.stdout
    assert done.stdout.endswith("2 tests, 3 checks: 2 failed\n")
    root = ET.fromstring("".join((folder / "junit.xml").read_text()))  # noqa: S314 - ours
    (suite,) = root
    assert suite.attrib["tests"] == "2"
    assert suite.attrib["failures"] == "1"
    failed, passed = suite
    assert (failed.attrib["name"], failed.attrib["line"]) == ("both", "4")
    assert failed[0].attrib["message"].startswith(f"{place}: error: sue submit")
    assert list(passed) == []
    annotations = run("-o", "github", ".").stdout.splitlines()
    assert annotations[0].startswith("::error file=some_test.yaml,line=4,col=60,title=queuegate")
    document = json.loads(run("-o", "json", ".").stdout)
    assert (document["tests"], document["checks"], document["failed"]) == (2, 3, 2)


def test_a_failure_suggests_the_queue_that_was_meant(folder: Path) -> None:
    config = POLICY.replace("name: a,", "name: analytics,")
    (folder / "queues.yaml").write_text(config)
    (folder / "some_test.yaml").write_text(TESTS.replace("root.a,", "root.analytic,"))
    done = run(".")
    assert done.exit_code == 1
    place = "\n      root.analytic does not exist; decided at root; did you mean root.analytics?\n"
    assert done.stdout.count(place) == 3


@pytest.mark.parametrize("queue", ["root.a.payroll", "root.payroll", "root.b.x.y"])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_queue_that_does_not_exist_fails(folder: Path, queue: str, *, allowed: bool) -> None:
    """It may have been renamed and opened, and then another queue's ACLs would pass the test."""
    instead = {"root.a.payroll": "root.a", "root.payroll": "root", "root.b.x.y": "root.b"}[queue]
    user = "sue" if allowed and instead == "root.a" else "boss" if allowed else "eve"
    expected = str(allowed or instead == "root.b").lower()
    text = "policy: queues.yaml\nusers: {sue: [], boss: [], eve: []}\n"
    text += f"tests: [{{user: {user}, queue: {queue}, allowed: {expected}%s}}]\n"
    (folder / "some_test.yaml").write_text(text % "")
    done = run(".")
    assert done.exit_code == 1
    message = f"{queue}: the queue does not exist, and {instead} decides instead"
    assert f"{message} (correct the queue, or add `evaluated_queue: {instead}` to" in done.stdout
    (folder / "some_test.yaml").write_text(text % f", evaluated_queue: {instead}")
    assert run(".").exit_code == 0
    (folder / "some_test.yaml").write_text(text % ", evaluated_queue: root.other")
    assert "expected root.other" in run(".").stdout


@pytest.mark.parametrize(
    ("queue", "user", "allowed"),
    [
        ("root.managed.payroll", "alice", True),
        ("root.managed.payroll", "eve", False),
        ("root.flex.payroll", "alice", True),
        ("root.flex.team.payroll", "eve", False),
        ("root.managed.payroll", "ghost", False),
    ],
)
def test_a_queue_that_yarn_would_create_fails(
    folder: Path, queue: str, user: str, *, allowed: bool
) -> None:
    """It may have been renamed and opened: then a template's ACLs would pass the test."""
    (folder / "queues.yaml").write_text(CREATING)
    text = "policy: queues.yaml\nusers: {alice: [], eve: [], ghost: }\n"
    text += f"tests: [{{user: {user}, queue: {queue}, allowed: {str(allowed).lower()}%s}}]\n"
    for stated in ("", ', evaluated_queue: ""', ", evaluated_queue: root"):
        (folder / "some_test.yaml").write_text(text % stated)
        done = run(".")
        assert done.exit_code == 1, stated
        if "root" in stated:
            assert f"evaluated_queue is {queue}, expected root" in done.stdout
        else:
            message = "the queue does not exist, and YARN will create it"
            remedy = f"(correct the queue, or add `evaluated_queue: {queue}` to the test)"
            assert f"{message} {remedy}" in done.stdout
    (folder / "some_test.yaml").write_text(text % f", evaluated_queue: {queue}")
    done = run(".")
    assert done.exit_code == 0, done.stdout


def test_evaluated_queue_of_a_queue_that_exists_fails(folder: Path) -> None:
    text = "policy: queues.yaml\nusers: {boss: []}\ntests: [{user: boss, queue: root.a, "
    (folder / "some_test.yaml").write_text(f"{text}allowed: true, evaluated_queue: root.a}}]\n")
    done = run(".")
    assert done.exit_code == 1
    message = "evaluated_queue is empty, expected root.a; the queue exists (remove evaluated_queue,"
    assert message in done.stdout


@pytest.mark.parametrize("written", ["", "partition: gpux, "])
def test_a_partition_that_does_not_exist_fails(folder: Path, written: str) -> None:
    (folder / "queues.yaml").write_text(POLICY.replace("[{q", "[{name: gpu, q", 1))
    text = f"tests: [{{user: sue, queue: root.a, {written}allowed: false}}]\n"
    (folder / "some_test.yaml").write_text(f"policy: queues.yaml\nusers: {{sue: [g1]}}\n{text}")
    done = run(".")
    assert done.exit_code == 1
    message = "does not exist; partitions are: gpu (write `partition: NAME` in the test, with one"
    assert message in done.stdout


def test_a_name_of_several_queues_fails(folder: Path) -> None:
    key = "yarn.scheduler.capacity.root"
    (folder / "queues.yaml").write_text(
        f"<configuration><property><name>{key}.queues</name><value>a,b</value></property>"
        f"<property><name>{key}.b.queues</name><value>a,c</value></property></configuration>"
    )
    text = "policy: queues.yaml\nusers: {sue: []}\n"
    text += "tests: [{user: sue, queue: [a, c], allowed: false}]\n"
    (folder / "some_test.yaml").write_text(text)
    (folder / "queuegate.yaml").write_text("policy: {semantics: hadoop}\n")
    done = run(".")
    assert done.exit_code == 1
    assert "sue submit a: a is the name of several queues: root.a, root.b.a (write" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("unknown_user", "", '5:48: error: reason has no value (write `reason: ""` to expect'),
        ("policy:", "polcy:", '1:1: error: unknown key "polcy" in a test file (did you mean'),
        ("allowed: true", "alowed: true", 'unknown key "alowed" in a test (did you mean allowed?)'),
        ("allowed: true", "allowed: maybe", 'allowed must be true or false, not "maybe"'),
        (", allowed: true", "", "4:5: error: a test has no allowed (write `allowed: …`)"),
        ("user: eve", "user: evee", 'the user "evee" is not in `users` (did you mean eve?)'),
        ("unknown_user", "unknown_usr", "(did you mean unknown_user?)"),
        ("queues.yaml", "nosuch.yaml", "nosuch.yaml: error: cannot be read: No such file"),
        (TESTS, "", "has no tests"),
        (TESTS, "policy: queues.yaml\n", "has no tests"),
        (TESTS, "a: [\n", "invalid YAML"),
    ],
)  # fmt: skip
def test_files_that_are_not_valid(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "some_test.yaml").write_text(TESTS.replace(old, new))
    done = run(".")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_folder_without_tests_is_an_error(folder: Path) -> None:
    (folder / "empty").mkdir()
    done = run("empty")
    assert done.exit_code == 2
    assert "empty: contains no tests: name the files *_test.yaml" in done.stderr
    assert run("nosuch").exit_code == 2


def test_questions_that_have_no_answer_fail(folder: Path) -> None:
    (folder / "some_test.yaml").write_text(TESTS.replace("root.a", "rooot"))
    done = run(".")
    assert done.exit_code == 1
    assert "queue: is not a full queue path" in done.stdout


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
    with offline_client("queues.yaml", None, 60) as client:
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


@pytest.mark.parametrize("user", ["CORP\\jdoe", "auth0|62f", "ann b", "9x"])
def test_names_that_a_request_with_groups_cannot_have(folder: Path, user: str) -> None:
    """Without a resolver, a server knows these groups from requests only, and refuses them."""
    with offline_client("queues.yaml", None, 60) as client:
        with pytest.raises(InvalidArgument) as refused:
            client.check(user, "root.a", groups=["g1"])
        assert client.check(user, "root.b").allowed
    tests = [{"user": user, "queue": "root.a", "allowed": True}]
    content = {"policy": "queues.yaml", "users": {user: ["g1"]}, "tests": tests}
    (folder / "some_test.yaml").write_text(yaml.safe_dump(content))
    done = run(".")
    assert done.exit_code == 1
    assert f"INVALID_ARGUMENT: {refused.value}" in done.stdout
    assert "partition without a resolver: the request gives the groups" in done.stdout
    # With a resolver, its groups are meant.
    (folder / "queuegate.yaml").write_text(
        "{resolvers: {corp: {type: os}}, partitions: {default: {resolver: corp}}}"
    )
    (folder / "some_test.yaml").write_text(yaml.safe_dump({**content, "config": "queuegate.yaml"}))
    done = run(".")
    assert (done.stderr, done.exit_code) == ("", 0)


def test_a_note_says_that_groups_of_requests_are_not_used(folder: Path) -> None:
    config = "partitions: {default: {trust_provided_groups: false}}\n"
    (folder / "queuegate.yaml").write_text(config)
    (folder / "some_test.yaml").write_text(f"config: queuegate.yaml\n{TESTS}")
    assert "has no resolver: it ignores groups in requests" in run(".").stderr
