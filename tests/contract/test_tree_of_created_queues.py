"""`tree --user` marks the queues that YARN will create, without any checks."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import queuegate
from queuegate.cli import main
from queuegate.policy.created_queues import TemplateKind
from queuegate.v1 import policy_pb2
from tests.support.fakes.scripted_server import ScriptedServer
from tests.support.generators.yarn_files import prop
from tests.support.rows import rows
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

KEY = "yarn.scheduler.capacity"
V2 = "auto-queue-creation-v2"
SUBMIT = "acl_submit_applications"
ADMINISTER = "acl_administer_queue"
BASE = {
    "root.queues": "flex,managed,closed",
    f"root.{SUBMIT}": " ",
    f"root.{ADMINISTER}": " ",
    "root.flex.queues": "fixed",
    f"root.flex.{V2}.enabled": "true",
    "root.managed.auto-create-child-queue.enabled": "true",
}


def scheduler(properties: Mapping[str, str]) -> str:
    settings = {**BASE, **properties}
    lines = "\n".join(prop(f"{KEY}.{name}", value) for name, value in settings.items())
    return f"<configuration>{lines}</configuration>"


@pytest.fixture
def only_read(tmp_path: Path) -> Iterator[RunningServer]:
    file = tmp_path / "capacity-scheduler.xml"
    templates = {
        f"root.managed.leaf-queue-template.{SUBMIT}": "ann analysts",
        f"root.flex.{V2}.template.{SUBMIT}": "*",
    }
    file.write_text(scheduler(templates))
    roles = ("--set", "callers.loopback.roles=read")
    with running_server("--policy", str(file), *ADMIN, *roles) as server:
        yield server


@pytest.mark.parametrize("output", ["text", "json"])
@rows
def test_the_role_read_is_enough_and_no_call_is_refused(
    only_read: RunningServer,
    output: str,
    user: str,
    groups: tuple[str, ...],
    marks: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["tree", "--address", only_read.address, "--timeout", "60", "-o", output]
    assert main([*words, "--user", user, *groups]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    if output == "text":
        flexible, managed = marks
        assert f"*  {flexible}template: everyone\n" in shown.out
        assert f"*  {managed}leaf-queue-template: user ann; group analysts\n" in shown.out
    assert not [line for line in only_read.errors if "PERMISSION" in line.upper()]


def generated(seed: int) -> str:
    chosen = random.Random(seed)
    acls = (" ", "*", "ann", "bob,ann", " g", "bob g,h", "~hue")
    paths = ("root", "root.*", "root.flex", "root.flex.*", "root.flex.team", "root.flex.team.*")
    properties = {f"root.flex.{V2}.maximum-queue-depth": chosen.choice(("2", "2", "1", "3"))}
    properties[f"root.managed.{TemplateKind.LEAF_OF_MANAGED}.{SUBMIT}"] = chosen.choice(acls)
    for _ in range(chosen.randrange(2, 9)):
        kind = chosen.choice([*TemplateKind])
        path = "root.managed" if kind == TemplateKind.LEAF_OF_MANAGED else chosen.choice(paths)
        properties[f"{path}.{kind}.{chosen.choice((SUBMIT, ADMINISTER))}"] = chosen.choice(acls)
    for _ in range(chosen.randrange(3)):
        queue = chosen.choice(("root", "root.flex", "root.managed"))
        properties[f"{queue}.{chosen.choice((SUBMIT, ADMINISTER))}"] = chosen.choice(acls)
    return scheduler(properties)


@pytest.mark.parametrize("semantics", ["documented", "hadoop"])
@pytest.mark.parametrize("prefix", ["root", "root.flex"])
@pytest.mark.parametrize("seed", range(12))
def test_every_mark_is_what_a_check_returns(
    tmp_path: Path,
    seed: int,
    prefix: str,
    semantics: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "capacity-scheduler.xml"
    file.write_text(generated(seed))
    files = ["--policy", str(file), "--semantics", semantics]
    marked = 0
    for groups in (["--no-groups"], ["--group", "g"]):
        for user in ("ann", "eve"):
            question = [*files, *groups, "--real-user", "hue"]
            assert main(["tree", *question, "--user", user, "--prefix", prefix]) == 0
            for path, mark in marks_of(capsys.readouterr().out, prefix):
                allowed = [
                    access
                    for access in ("submit", "admin")
                    if main(["check", user, path, *question, "--access", access]) == 0
                ]
                capsys.readouterr()
                assert mark == (" and ".join(allowed) or "denied"), path
                marked += 1
    if prefix == "root":
        assert marked


def test_templates_above_a_prefix_apply_below_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "capacity-scheduler.xml"
    templates = {
        f"root.flex.{V2}.template.{ADMINISTER}": "bob",
        f"root.*.{V2}.leaf-template.{SUBMIT}": "ann",
        f"root.managed.leaf-queue-template.{SUBMIT}": "eve",
    }
    file.write_text(scheduler(templates))
    with (
        running_server("--policy", str(file), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        for prefix, paths in (
            ("root.flex", ["root.*", "root.flex"]),
            ("root.flex.fixed", ["root.*"]),
            ("root.managed", ["root.*", "root.managed"]),
            ("root", ["root.*", "root.flex", "root.managed"]),
        ):
            shown = client.get_policy(prefix=prefix).templates
            assert sorted(each.path for each in shown) == paths
        words = ("--address", server.address, "--timeout", "60", "--prefix", "root.flex")
        assert main(["tree", *words, "--user", "ann", "--no-groups"]) == 0
    assert "*  submit; template: admin user bob\n" in capsys.readouterr().out


def marks_of(tree: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each marked line of queues to be created, with its mark."""
    path: list[str] = []
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip("│├└─ "))
        name, _, text = line[indent:].partition("  ")
        path = [*path[: indent // 3], name] if indent else [prefix]
        mark = text.partition(";")[0]
        if name.endswith("*") and mark in {"submit", "admin", "submit and admin", "denied"}:
            yield ".".join(path), mark


@rows
@pytest.mark.parametrize("user", [(), ("--user", "a")])
def test_a_server_that_does_not_say_how_it_reads_acls(
    policy_format: str,
    semantics: str,
    shown: str,
    user: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    queue = policy_pb2.PolicyQueue(path="root", submit_acl="a b c", created_levels=1)
    template = policy_pb2.QueueTemplate(
        path="root", kind=TemplateKind.LEAF_OF_MANAGED, submit_acl="a b c"
    )
    with ScriptedServer() as server:
        server.script.answers["GetPolicy"] = policy_pb2.GetPolicyResponse(
            queues=[queue], templates=[template], format=policy_format, semantics=semantics
        )
        assert main(["tree", "--address", server.address, "--timeout", "60", *user]) == 0
        assert not server.script.requests("CheckQueueAccess")
    output = capsys.readouterr().out
    mark = "submit; " if user and semantics == "hadoop" else ""
    assert output.endswith(f"└─ *  {mark}leaf-queue-template: {shown}\n")
    assert output.count(shown) == 2
