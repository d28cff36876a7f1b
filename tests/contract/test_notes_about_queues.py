"""Notes about what the scheduler does beside the ACLs, against a running server and without one."""

import json
from pathlib import Path

import pytest

import queuegate
from queuegate.cli import main
from queuegate.policy.decision import Access
from tests.support.generators.yarn_files import prop
from tests.support.servers.queuegate_server import ADMIN, running_server

Capture = pytest.CaptureFixture[str]
KEY = "yarn.scheduler.capacity.root"
CAPACITY = "".join(
    prop(f"{KEY}.{name}", value)
    for name, value in (
        ("queues", "a,a-b,users"),
        ("acl_submit_applications", "ann"),
        ("acl_administer_queue", " "),
        ("a.queues", "x"),
        ("users.auto-create-child-queue.enabled", "true"),
        ("users.leaf-queue-template.acl_submit_applications", "ann"),
    )
)
FAIR = """<allocations><queue name="root"><aclSubmitApps>ann</aclSubmitApps>
<aclAdministerApps> </aclAdministerApps><queue name="a"><queue name="x"/></queue>
<queue name="a-b"/><queue name="users"><queue name="u"/></queue></queue></allocations>"""
YUNIKORN = """partitions: [{name: default, queues: [{name: root, submitacl: ann, queues: [
{name: a, queues: [{name: x}]}, {name: a-b}, {name: users, queues: [{name: u}]}]}]}]"""
FILES = {
    "capacity-scheduler.xml": f"<configuration>{CAPACITY}</configuration>",
    "fair-scheduler.xml": FAIR,
    "queues.yaml": YUNIKORN,
    "childless.yaml": YUNIKORN.replace("queues: [{name: u}]", "parent: true"),
    "childless.xml": FAIR.replace('name="users"><queue name="u"/>', 'name="users" type="parent">'),
}
PARENT = "is a parent queue: the scheduler accepts applications only in leaf queues\n"


@pytest.fixture(scope="module", params=FILES)
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policy") / str(request.param)
    file.write_text(FILES[request.param])
    return file


def test_a_submission_to_a_parent_queue(policy: Path, capsys: Capture) -> None:
    with (
        running_server("--policy", str(policy), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        for queue, is_parent in (
            ("root", True),
            ("root.a", True),
            ("root.users", True),
            ("root.a.x", False),
            ("root.a-b", False),
        ):
            answer = client.explain("ann", queue, groups=())
            assert (answer.is_parent, answer.decision.allowed) == (is_parent, True)
            options = ("--no-groups", "--policy", str(policy))
            assert main(["explain", "ann", queue, *options]) == 0
            printed = capsys.readouterr().out
            assert (f"{queue} {PARENT}" in printed) is is_parent
            assert main(["explain", "bob", queue, *options]) == 1
            assert PARENT not in capsys.readouterr().out
            administer = client.explain("bob", queue, access=Access.ADMIN, groups=())
            assert administer.is_parent is is_parent


def test_administering_a_parent_queue_needs_no_note(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(YUNIKORN.replace("submitacl: ann", "adminacl: ann"))
    options = ("--no-groups", "--policy", str(file))
    assert main(["explain", "ann", "root.a", *options]) == 0
    assert PARENT in capsys.readouterr().out
    assert main(["explain", "ann", "root.a", "--access", "admin", *options]) == 0
    assert PARENT not in capsys.readouterr().out


@pytest.mark.parametrize("semantics", ["documented", "hadoop"])
@pytest.mark.parametrize("name", ["capacity-scheduler.xml", "fair-scheduler.xml"])
def test_disabled_acls(name: str, semantics: str, tmp_path: Path, capsys: Capture) -> None:
    file, site = tmp_path / name, tmp_path / "yarn-site.xml"
    file.write_text(FILES[name])
    unenforced, enforced = ["submit", "admin"], "none of these ACLs"
    if (name, semantics) == ("fair-scheduler.xml", "hadoop"):
        unenforced, enforced = ["admin"], "these ACLs only for submission"
    note = f"note: YARN enforces {enforced}, because yarn.acl.enable is not true\n"
    options = ("--policy", str(file), "--yarn-site", str(site), "--semantics", semantics)
    for enabled in ("false", "true"):
        values = f"{prop('yarn.acl.enable', enabled)}{prop('yarn.admin.acl', 'boss')}"
        site.write_text(f"<configuration>{values}</configuration>")
        main(["explain", "bob", "root.a", "--no-groups", *options])
        is_allowed = capsys.readouterr().out.startswith("allowed")
        assert is_allowed is (enabled == "false" and enforced.startswith("none"))
        assert main(["tree", *options]) == 0
        assert capsys.readouterr().out.startswith(note) is (enabled == "false")
        assert main(["tree", *options, "-o", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown.get("unenforced", []) == (unenforced if enabled == "false" else [])
    site.write_text(f"<configuration>{prop('yarn.acl.enable', 'false')}</configuration>")
    settings = tmp_path / "queuegate.yaml"
    settings.write_text(
        f"policy: {{path: {file}, yarn_site: {site}}}\n"
        f"partitions: {{default: {{semantics: {semantics}}}}}\n"
    )
    with running_server("--config", str(settings), *ADMIN) as server:
        address = ("--address", server.address, "--timeout", "60")
        assert main(["tree", *address]) == 0
        assert capsys.readouterr().out.startswith(note)
        assert main(["policy", *address]) == 0
        assert note in capsys.readouterr().out
        assert main(["policy", *address, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["unenforced"] == unenforced
