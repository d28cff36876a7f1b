"""What the command line says about a name that several queues of the capacity scheduler share."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate.cli import main
from tests.support.generators.yarn_files import prop
from tests.support.rows import rows
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

Capture = pytest.CaptureFixture[str]
KEY = "yarn.scheduler.capacity.root"
CAPACITY = "".join(
    prop(f"{KEY}.{name}", value)
    for name, value in (
        ("queues", "a,b,users"),
        ("b.queues", "a,c"),
        ("acl_submit_applications", " "),
        ("acl_administer_queue", " "),
        ("a.acl_submit_applications", "alice"),
        ("c.acl_submit_applications", "alice"),
        ("users.auto-create-child-queue.enabled", "true"),
        ("users.leaf-queue-template.acl_submit_applications", "*"),
    )
)
FAIR = """<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>
<aclAdministerApps> </aclAdministerApps><queue name="b"><queue name="a"/><queue name="d">
<queue name="a"/></queue></queue></queue></allocations>"""
NOTE = "a is the name of several queues: root.a, root.b.a (write the full path)\n"


@pytest.fixture(scope="module", params=["documented", "hadoop"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("policy")
    policy, config = folder / "capacity-scheduler.xml", folder / "queuegate.yaml"
    policy.write_text(f"<configuration>{CAPACITY}</configuration>")
    config.write_text(
        f"policy: {{path: {policy}}}\npartitions: {{default: {{semantics: {request.param}}}}}\n"
    )
    with running_server("--config", str(config), *ADMIN) as running:
        yield running


def run(server: RunningServer, capsys: Capture, line: str) -> tuple[int, str]:
    status = main(["--address", server.address, "--timeout", "60", *line.split()])
    printed, errors = capsys.readouterr()
    return status, printed + errors


@rows
def test_the_queues_are_named(
    server: RunningServer, capsys: Capture, line: str, status: int
) -> None:
    answered, printed = run(server, capsys, line)
    assert answered == status
    assert NOTE in printed
    assert "nobody may" not in printed
    answered, printed = run(server, capsys, f"{line} -o json")
    assert answered == status
    json.loads(printed)


@rows
def test_other_names_need_no_note(server: RunningServer, capsys: Capture, line: str) -> None:
    assert "several queues" not in run(server, capsys, line)[1]


def test_the_fair_scheduler_knows_no_short_names(tmp_path: Path, capsys: Capture) -> None:
    policy = tmp_path / "fair-scheduler.xml"
    policy.write_text(FAIR)
    assert main(["check", "bob", "a", "--no-groups", "--policy", str(policy)]) == 1
    printed = capsys.readouterr().out
    assert "several queues" not in printed
    assert "a does not exist; decided at root" in printed


def test_queues_to_be_created_are_not_denied(server: RunningServer, capsys: Capture) -> None:
    assert run(server, capsys, "check zed root.users.zed --no-groups")[0] == 0
    status, printed = run(server, capsys, "queues zed --prefix root.users --why --no-groups")
    assert status == 0
    assert printed == "zed may submit to none of the configured queues at or below root.users\n"
