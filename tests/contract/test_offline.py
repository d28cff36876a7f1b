"""Commands that decide without a server answer as one does."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate.cli import main
from queuegate.cli.offline import offline_client
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

DOCUMENTS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]
Capture = pytest.CaptureFixture[str]
EXAMPLE = ("--policy", "examples/queues.yaml")


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
        offline_client(str(policy), None, 60) as offline,
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


@pytest.mark.parametrize(
    ("line", "status", "output"),
    [
        ("check sue root.analytics.reports", 0, "allowed: sue may submit to root.analytics.repor"),
        ("check john root.analytics.reports", 1, "denied: john may not submit to root.analytics."),
        ("explain john root.analytics --group analysts", 0, "groups: analysts (from the request)"),
        ("queues sue", 0, "root.analytics.reports\nroot.sandbox\n"),
        ("check sue root.analytics.nosuch", 1, "does not exist; decided at root.analytics\n"),
        ("check sue root.analytic.reports", 1, "at root; did you mean root.analytics.reports?\n"),
        ("check sue root -o json", 1, '"policy_revision": 1'),
    ],
)
def test_verbs(capsys: Capture, line: str, status: int, output: str) -> None:
    assert main([*line.split(), *EXAMPLE]) == status
    printed, errors = capsys.readouterr()
    assert output in printed
    assert errors == ""


def test_applications(capsys: Capture) -> None:
    line = "app-check Jane view-logs --queue Test --owner John --view-acl Jane"
    assert main([*line.split(), "--policy", "examples/fair-scheduler.xml"]) == 0
    assert capsys.readouterr().out.startswith("allowed: Jane may view the logs of the application")


WRONG: list[tuple[str, str]] = [
    ("check a root --policy /nosuch.yaml", "/nosuch.yaml: error: cannot be read: No such file"),
    ("check a root --policy LICENSE", "LICENSE:93:36: error: invalid YAML"),
    ("check a root --config /nosuch.yaml", "/nosuch.yaml: error: cannot be read: No such file"),
    ("check a rooot --policy examples/queues.yaml", "QUEUE 'rooot' is not a full queue path"),
    ("check a root --partition x --policy examples/queues.yaml", "partition 'x' does not exist"),
    (
        "check a root --policy examples/queues.yaml --address 127.0.0.1:1",
        "--address: not allowed with --policy: no server is involved",
    ),
    ("--token-file t queues a --config c --tls-ca c", "--tls-ca, --token-file: not allowed with"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_wrong_usage(capsys: Capture, line: str, message: str) -> None:
    assert main(line.split()) == 2
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert f"Error: {message}" in errors


@pytest.mark.parametrize("option", ["policy", "config", "address", "token-file", "tls-ca"])
def test_an_empty_option_is_refused(capsys: Capture, option: str) -> None:
    """A variable of a script that is not set must not change who decides."""
    assert main(["check", "a", "root", f"--{option}", ""]) == 2
    assert capsys.readouterr().err.endswith(f"Error: --{option} must not be empty\n")


def test_all_faults_of_a_policy_are_shown(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("partitions: [{name: a, queues: [{name: b c}, {name: d e}]}]\n")
    assert main(["check", "a", "root", "--policy", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"Error: {file}:1:")
    assert lines[1].startswith(f"  {file}:1:")


@pytest.fixture
def of_a_directory(tmp_path: Path) -> Path:
    """A policy that asks for a directory."""
    file = tmp_path / "queues.yaml"
    file.write_text(
        "partitions:\n"
        "  - name: default\n"
        "    usergroupresolver: {type: ldap}\n"
        "    queues: [{name: root, submitacl: ' g1', queues: [{name: a, submitacl: '*'}]}]\n"
    )
    return file


def test_without_settings_no_directory_is_asked(capsys: Capture, of_a_directory: Path) -> None:
    """Answers that need no groups, or get them, are given; others never."""
    given = ("--policy", str(of_a_directory))
    assert main(["check", "sue", "root.a", *given]) == 0
    assert main(["check", "sue", "root", "--group", "g1", *given]) == 0
    assert main(["check", "sue", "root", "--group", "g2", *given]) == 1
    capsys.readouterr()
    for verb in ("check", "explain"):
        assert main([verb, "sue", "root", *given]) == 3
        assert capsys.readouterr() == (
            "",
            (
                "Error: the decision depends on the user's groups: pass them with --group,"
                " or the server's settings with --config\n"
            ),
        )
    assert main(["queues", "sue", *given, "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["reason"] == "RESOLVER_UNAVAILABLE"


def test_with_settings_the_resolver_of_the_server_is_asked(
    capsys: Capture, of_a_directory: Path, tmp_path: Path
) -> None:
    config = tmp_path / "queuegate.yaml"
    config.write_text(
        f"policy: {{path: {of_a_directory}}}\n"
        "resolvers: {fixed: {type: test}}\n"
        "partitions: {default: {resolver: fixed}}\n"
    )
    of_a_directory.write_text(of_a_directory.read_text().replace("g1", "group1000"))
    assert main(["check", "testuser1", "root", "--config", str(config)]) == 0
    assert "lists the group group1000" in capsys.readouterr().out
    assert main(["explain", "testuser2", "root", "--config", str(config)]) == 1
    assert "just resolved; resolver fixed" in capsys.readouterr().out
    assert main(["check", "nobody", "root", "--config", str(config)]) == 1
    assert "does not know the user" in capsys.readouterr().out
    other = ("--policy", "examples/queues.yaml", "--config", str(config))
    assert main(["check", "sue", "root.analytics.reports", *other]) == 0
    assert main(["check", "testuser5", "root", "--config", str(config)]) == 3
    assert "no group list for the user" in capsys.readouterr().err


_PREFIX = "yarn.scheduler.capacity.root"
CAPACITY = "".join(
    f"<property><name>{_PREFIX}.{key}</name><value>{value}</value></property>"
    for key, value in {
        "queues": "default,etl",
        "etl.queues": "a,b",
        "acl_submit_applications": " ",
        "acl_administer_queue": " ops x",
    }.items()
)


@pytest.fixture
def capacity(tmp_path: Path) -> Path:
    file = tmp_path / "capacity-scheduler.xml"
    file.write_text(f"<configuration>{CAPACITY}</configuration>")
    return file


@pytest.mark.parametrize("options", ["", " --semantics hadoop", " --acl-names any"])
@pytest.mark.parametrize(
    "command",
    ["check sue root.etl", "explain sue root.etl", "tree", "queues sue", "who-can root.etl"],
)
def test_an_unknown_partition_with_options_for_it(
    capsys: Capture, capacity: Path, command: str, options: str
) -> None:
    """No settings are involved, so the message must not mention them."""
    line = f"{command} --partition hadoop{options}"
    assert main([*line.split(), "--policy", str(capacity)]) == 2
    message = "partition 'hadoop' does not exist; partitions are: default; choose one with"
    assert capsys.readouterr().err == f"Error: {message} --partition\n"


def test_options_apply_to_the_only_partition(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    acl = "system:serviceaccount:ns:a"
    file.write_text(f"partitions: [{{name: gpu, queues: [{{name: root, submitacl: '{acl}'}}]}}]\n")
    assert main(["tree", "--policy", str(file), "--acl-names", "any"]) == 0
    assert f"user {acl}\n" in capsys.readouterr().out
    assert main(["check", acl, "root", "--policy", str(file), "--acl-names", "any"]) == 2
    assert "partition 'default' does not exist; partitions are: gpu" in capsys.readouterr().err


GROUPS_NEEDED = "the decision depends on the user's groups: pass them with --group"
NOT_CREATED = "does not exist, and YARN does not create it"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("check root.etl alice", f"alice {NOT_CREATED}; USER comes first: alice root.etl"),
        ("explain root.etl alice", f"alice {NOT_CREATED}; USER comes first: alice root.etl"),
        ("check etl alice", f"alice {NOT_CREATED}; USER comes first: alice etl"),
        ("check etl elt", f"elt {NOT_CREATED}; did you mean root.etl?"),
        ("check alice ROOT.etl", f"ROOT.etl {NOT_CREATED}; did you mean root.etl?"),
        ("explain alice root/etl", f"root/etl {NOT_CREATED}; did you mean root.etl?"),
        ("check alice /ROOT/etl/a", f"/ROOT/etl/a {NOT_CREATED}; did you mean root.etl.a?"),
        ("check alice root.elt.a", f"root.elt.a {NOT_CREATED}; did you mean root.etl.a?"),
        ("check alice root:etl", f"root:etl {NOT_CREATED}; did you mean root.etl?"),
        ("check alice root\\etl:a", f"root\\etl:a {NOT_CREATED}; did you mean root.etl.a?"),
        ("check root.etl root.etl", "root.etl looks like a queue, not a user"),
        ("queues root.etl", "root.etl looks like a queue, not a user"),
        ("tree --user root.etl", "root.etl looks like a queue, not a user"),
        (
            "app-check alice view --queue root.etx --owner bob",
            f"root.etx {NOT_CREATED}; did you mean root.etl?",
        ),
    ],
)
def test_hints_replace_the_request_for_groups(
    capsys: Capture, capacity: Path, line: str, hint: str
) -> None:
    assert main([*line.split(), "--policy", str(capacity)]) == 3
    errors = capsys.readouterr().err
    assert errors == f"Error: {hint}\n"


@pytest.mark.parametrize(
    ("line", "status", "hint"),
    [
        (
            "queues zoe --prefix root.etx",
            0,
            "queue root.etx does not exist; did you mean root.etl?",
        ),
        ("tree --prefix root.etx", 1, "queue root.etx does not exist; did you mean root.etl?"),
        (
            "tree --prefix root.etx --user zoe",
            1,
            "queue root.etx does not exist; did you mean root.etl?",
        ),
        ("who-can root.etx", 3, f"root.etx {NOT_CREATED}; decided at root; did you mean root.etl?"),
        (
            "app-check zoe move --queue root.etl --owner zoe --target-queue ROOT.etx",
            1,
            f"ROOT.etx {NOT_CREATED}; did you mean root.etl?",
        ),
    ],
)
def test_did_you_mean(capsys: Capture, capacity: Path, line: str, status: int, hint: str) -> None:
    assert main([*line.split(), "--policy", str(capacity)]) == status
    printed = capsys.readouterr()
    assert hint in printed.err + printed.out


@pytest.mark.parametrize("queue", [" root.etl", "root.etl ", " ROOT/etl "])
def test_blanks_around_a_queue_are_visible(capsys: Capture, capacity: Path, queue: str) -> None:
    line = f"'{queue}' {NOT_CREATED}; {{}}did you mean root.etl?"
    assert main(["check", "alice", queue, "--policy", str(capacity)]) == 3
    assert capsys.readouterr().err == f"Error: {line.format('')}\n"
    assert main(["check", "alice", queue, "--policy", str(capacity), "--no-groups"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"denied: alice may not submit to '{queue}': ")
    assert second == line.format("decided at root; ")


def test_a_queue_that_may_be_created_needs_groups(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "fair-scheduler.xml"
    acls = "<aclSubmitApps> dev</aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    file.write_text(f"<allocations><queue name='root'>{acls}</queue></allocations>")
    assert main(["check", "alice", "root.new", "--policy", str(file)]) == 3
    errors = capsys.readouterr().err
    assert errors.startswith(f"Error: root.new does not exist\n  {GROUPS_NEEDED}")


def test_a_queue_that_exists_gets_no_hint(capsys: Capture, capacity: Path) -> None:
    assert main(["check", "alice", "root.etl", "--policy", str(capacity)]) == 3
    assert capsys.readouterr().err.startswith(f"Error: {GROUPS_NEEDED}")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_policy_is_named(capsys: Capture, tmp_path: Path, text: str) -> None:
    file = tmp_path / "capacity-scheduler.xml"
    file.write_text(text)
    assert main(["check", "sue", "root", "--policy", str(file)]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"{file}: warning: the file is empty: every request will fail")
    assert error == "Error: partition 'default' does not exist: the policy has no partitions"


@pytest.mark.parametrize("option", ["policy", "config", "token-file", "tls-ca"])
def test_standard_input_is_not_a_file(capsys: Capture, option: str) -> None:
    assert main(["check", "a", "root", f"--{option}", "-"]) == 2
    message = f"Error: --{option}: name a file; standard input (-) is not read here\n"
    assert capsys.readouterr().err.endswith(message)


def test_yunikorn_without_a_resolver_takes_groups_for_users(
    tmp_path: Path, capsys: Capture
) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(
        "partitions: [{name: default, queues: [{name: root, queues: ["
        "{name: open, submitacl: 'sue data'}, {name: named, submitacl: sue}]}]}]"
    )
    config = tmp_path / "queuegate.yaml"
    config.write_text(f"policy: {{path: {policy}}}\n")
    hint = "no resolver looks up groups, so that each group counts as the user of its name: name"
    for source in ("--config", str(config)), ("--policy", str(policy)):
        assert main(["who-can", "root.open", *source]) == 0
        printed = capsys.readouterr()
        assert f"{hint} one in the server's settings, as partitions.default.resolver" in printed.err
        assert main(["who-can", "root.named", *source]) == 0
        assert hint not in capsys.readouterr().err
    config.write_text(
        f"policy: {{path: {policy}}}\nresolvers: {{hosts: {{type: test}}}}\n"
        "partitions: {default: {resolver: hosts}}\n"
    )
    assert main(["who-can", "root.open", "--config", str(config)]) == 0
    assert hint not in capsys.readouterr().err


def test_yarn_without_a_resolver_has_no_groups(tmp_path: Path, capsys: Capture) -> None:
    """A group may have the name of a user, who is not in it for that reason."""
    (tmp_path / "fair.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps><queue name='adhoc'>"
        "<aclSubmitApps>bob analysts</aclSubmitApps></queue></queue></allocations>"
    )
    config = tmp_path / "queuegate.yaml"
    config.write_text(f"policy: {{path: {tmp_path / 'fair.xml'}}}\n")
    assert main(["check", "bob", "adhoc", "--config", str(config)]) == 0
    assert main(["check", "analysts", "adhoc", "--config", str(config)]) == 1
    capsys.readouterr()
    assert main(["who-can", "adhoc", "--config", str(config)]) == 3
    printed = capsys.readouterr()
    assert "bob" in printed.out
    assert "analysts" not in printed.out.splitlines()[0]
    assert "no resolver looks up groups: name one in the settings" in printed.out + printed.err
    assert main(["check", "analysts", "adhoc", "--policy", str(tmp_path / "fair.xml")]) == 3
    assert "the decision depends on the user's groups" in capsys.readouterr().err
