"""Names of Kubernetes and of identity providers in ACLs, with `acl_names: any`, at every door."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import queuegate
from queuegate import Reason
from queuegate.cli import main
from queuegate_server.cli.main import command_group
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

ACLS = {
    "team-a": "team-a-group",
    "aks": " 3f2504e0-4f89-11d3-9a0c-0305e82c3301,f02504e0-4f89-11d3-9a0c-0305e82c3301",
    "keycloak": " oidc:/org/team-a,/org/team-b",
    "teleport": "user:jdoe@corp.example group:ml",
    "eks": "arn:aws:sts::123456789012:assumed-role/Role/jdoe",
    "gke": "svc@proj.iam.gserviceaccount.com ml-team@corp.example",
    "anon": "system:anonymous system:masters",
    "odd": "jürgen,o'neil,10:x,CN=a;b,**,~tilde,a\"b,\u65e5\u672c R&D,\U0001f680",
}
"""By queue, the names that users and groups have elsewhere."""
LISTED = [
    (queue, kind, name)
    for queue, acl in ACLS.items()
    for kind, names in zip(("user", "group"), (*acl.split(" "), ""), strict=False)
    for name in names.split(",")
    if name
]
YUNIKORNS = {
    *("team-a-group", "svc@proj.iam.gserviceaccount.com"),
    "f02504e0-4f89-11d3-9a0c-0305e82c3301",
}
EXTENDED = YUNIKORNS | {
    *("user:jdoe@corp.example", "group:ml"),
    *("arn:aws:sts::123456789012:assumed-role/Role/jdoe", "system:anonymous", "system:masters"),
}
NOTHING_FOUND = "1 file, 0 errors, 0 warnings\n"
ANY = ("--set", "partitions.default.acl_names=any")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    queues = [{"name": name, "submitacl": acl} for name, acl in ACLS.items()]
    root = {"name": "root", "queues": queues}  # a document of JSON is one of YAML
    file = tmp_path_factory.mktemp("names") / "queues.yaml"
    partition = {"name": "default", "queues": [root]}
    file.write_text(json.dumps({"partitions": [partition]}, ensure_ascii=False))
    return file


@pytest.fixture(scope="module")
def server(policy: Path) -> Iterator[RunningServer]:
    with running_server("--policy", str(policy), *ANY, *ADMIN) as it:
        yield it


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[queuegate.Client]:
    with queuegate.Client(server.address, timeout=60) as it:
        yield it


def question(queue: str, kind: str, name: str) -> queuegate.Check:
    """Ask for somebody with this name, or in the group of this name."""
    user, groups = (name, ["other"]) if kind == "user" else ("9:x/y", [name])
    return queuegate.Check(user, f"root.{queue}", groups=groups)


def decides(answer: Any, kind: str, name: str) -> None:
    reason = Reason.USER if kind == "user" else Reason.GROUP
    assert (answer.allowed, answer.reason, answer.matched_subject) == (True, reason, name)


@pytest.mark.parametrize(("queue", "kind", "name"), LISTED)
def test_everybody_who_is_listed_gets_in(
    client: queuegate.Client, queue: str, kind: str, name: str
) -> None:
    asked = question(queue, kind, name)
    options: dict[str, Any] = {"groups": asked.groups}
    decides(client.check(asked.user, asked.queue, **options), kind, name)
    explained = client.explain(asked.user, asked.queue, **options)
    decides(explained.decision, kind, name)
    assert not any(step.dropped_names for step in explained.steps)
    [result] = client.check_many([asked])
    decides(result, kind, name)
    for stranger in (name + "x", name[:-1] + "-", name.swapcase() + "-"):
        other = question(queue, kind, stranger)
        if (queue, kind, stranger) not in LISTED:
            assert not client.check(other.user, other.queue, groups=other.groups), stranger


def test_the_wildcard_is_still_the_only_one(client: queuegate.Client) -> None:
    assert not client.check("anybody", "root.odd", groups=["g"])
    assert not client.check("anybody", "root.odd", groups=["*"])
    with pytest.raises(queuegate.InvalidArgument, match=r"user\.user: is not a valid"):
        client.check("*", "root.odd", groups=["g"])
    assert client.list_queues("10:x", groups=["g"]) == ["root.odd"]
    users = {each.user for page in client.list_users("root.odd") for each in page.users}
    assert {"10:x", "CN=a;b", "**"} <= users


@pytest.mark.parametrize("kind_of_gate", KINDS)
def test_gates(server: RunningServer, kind_of_gate: str) -> None:
    with live_gate(server.address, kind_of_gate) as gate:
        for queue, kind, name in LISTED:
            asked = question(queue, kind, name)
            decides(gate.check(asked.user, asked.queue, groups=asked.groups), kind, name)
            assert decides_itself(gate, asked.user, asked.queue, groups=asked.groups), name


@pytest.mark.parametrize(("names", "accepted"), [("yunikorn", YUNIKORNS), ("extended", EXTENDED)])
def test_narrower_choices(policy: Path, names: str, accepted: set[str]) -> None:
    """They name the choice that accepts a name, and let in nobody else."""
    done = CliRunner().invoke(
        command_group(), ["validate", "--acl-names", names, "-o", "json", str(policy)]
    )
    found = json.loads(done.stdout)
    remedies = {
        name: each["remedy"]
        for each in found["diagnostics"]
        for _, _, name in LISTED
        if each["message"].startswith(f"{json.dumps(name, ensure_ascii=False)} is not a ")
    }
    assert set(remedies) == {name for _, _, name in LISTED} - accepted
    for name, remedy in remedies.items():
        choice = "extended" if name in EXTENDED else "any"
        assert f"acl_names: {choice}" in remedy, name


def test_files_are_read_alike(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By validate, check and test, without a server."""
    run = CliRunner().invoke
    reading = ["--acl-names", "any", str(policy)]
    validated = run(command_group(), ["validate", *reading])
    assert (validated.exit_code, validated.output) == (0, NOTHING_FOUND)
    for queue, kind, name in LISTED:
        asked = question(queue, kind, name)
        groups = [word for group in asked.groups or () for word in ("--group", group)]
        options = ["--policy", str(policy), "--acl-names", "any", *groups]
        assert main(["check", *options, "--", asked.user, asked.queue]) == 0, name
        decided = f"lists the {kind} {name}"
        assert decided in capsys.readouterr().out
    config = tmp_path / "queuegate.yaml"
    config.write_text(
        json.dumps(
            {"policy": {"path": str(policy)}, "partitions": {"default": {"acl_names": "any"}}}
        )
    )
    tests = tmp_path / "names_test.yaml"
    expected = [
        {"user": user, "queue": queue, "allowed": True}
        for user, queue in (("3f:x", "root.aks"), ("10:x", "root.odd"))
    ]
    users = {"3f:x": ["3f2504e0-4f89-11d3-9a0c-0305e82c3301"], "10:x": ["/none"]}
    tests.write_text(json.dumps({"config": str(config), "users": users, "tests": expected}))
    tested = run(command_group(), ["test", str(tests)])
    assert tested.exit_code == 0, tested.output


def test_claims(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each claim that is refuted comes with a command that shows it."""
    everybody: dict[str, list[str]] = {}
    for queue, kind, name in LISTED:
        everybody.setdefault(queue, []).append(f"{kind}:{name}")
    claims = [
        f"only {', '.join(names)} may submit root.{queue}" for queue, names in everybody.items()
    ]
    never = [f"never {kind}:{name} submit root.{queue}" for queue, kind, name in LISTED]
    file = tmp_path / "claims.yaml"
    file.write_text(json.dumps({"claims": [*claims, *never]}, ensure_ascii=False))
    arguments = ["prove", "--acl-names", "any", str(policy), str(file)]
    done = CliRunner().invoke(command_group(), arguments)
    assert done.exit_code == 1, done.output
    assert done.stdout.count(" proved: ") == len(claims)
    assert done.stdout.count(" refuted: ") == len(never)
    commands = re.findall(r"^  \$ queuegate (.*)$", done.stdout, re.MULTILINE)
    assert len(commands) == len(never)
    for command in commands:
        assert main(shlex.split(command)) == 0, command
        assert capsys.readouterr().out.startswith("allowed: ")


def test_a_conversion_keeps_them(tmp_path: Path) -> None:
    source = tmp_path / "fair.xml"
    source.write_text(
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps><queue name='a'>"
        "<aclSubmitApps>3f:x,svc:etl 7b,/org/team</aclSubmitApps></queue></queue></allocations>"
    )
    run = CliRunner().invoke
    for names, kept in (("yunikorn", 0), ("extended", 1), ("any", 4)):
        output = tmp_path / f"{names}.yaml"
        done = run(command_group(), ["convert", "--acl-names", names, str(source)])
        output.write_text(done.stdout)
        lost = ["3f:x", "svc:etl", "7b", "/org/team"]
        text = output.read_text()
        assert sum(name in text for name in lost) == kept
        assert ("; --acl-names any accepts them" in done.output) is (kept < len(lost)), done.output
        checked = run(command_group(), ["validate", "--acl-names", names, str(output)])
        assert (checked.exit_code, checked.output) == (0, NOTHING_FOUND)


def test_validation_by_the_server(client: queuegate.Client, policy: Path) -> None:
    """It reads a policy as the server would."""
    result = client.validate(policy.read_text())
    assert result.valid
    assert not any("grants nothing" in each.message for each in result.diagnostics)
    assert any("YuniKorn drops" in each.message for each in result.diagnostics)
