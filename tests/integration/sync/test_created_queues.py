"""Queues that YARN will create: servers and gates decide about them."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import queuegate
from queuegate import Access, Reason
from queuegate.cli import server_state
from queuegate.cli.terminal import Colors
from tests.support.eventually import eventually
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.yarn_templates import creating_scheduler

NEW = "root.managed.new"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "capacity-scheduler.xml"
    file.write_text(creating_scheduler())
    return file


@pytest.fixture
def client(policy: Path) -> Iterator[queuegate.Client]:
    with (
        running_server("--policy", str(policy), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as asking,
    ):
        yield asking


def test_a_server_decides_by_the_template(client: queuegate.Client) -> None:
    decision = client.check("alice", NEW)
    assert (decision.allowed, decision.reason) == (True, Reason.USER)
    assert (decision.matched_queue, decision.evaluated_queue) == (NEW, "")
    assert client.check("bob", NEW, groups=["analysts"]).reason is Reason.GROUP
    assert not client.check("alice", NEW, access=Access.ADMIN, groups=["none"])
    assert client.check("ops", NEW, access=Access.ADMIN)
    assert client.check("sue", NEW).matched_queue == "root"
    assert not client.check("alice", f"{NEW}.below", groups=["none"])
    assert not client.check("alice", "root.default.new", groups=["none"])


def test_everything_else_agrees(client: queuegate.Client) -> None:
    explanation = client.explain("ops", NEW)
    assert [(step.queue, step.acl) for step in explanation.steps] == [
        (NEW, Access.SUBMIT),
        (NEW, Access.ADMIN),
    ]
    (page,) = client.list_users(NEW, access=Access.SUBMIT)
    assert [user.user for user in page.users] == ["alice", "ops", "sue"]
    assert [user.via[0].queue for user in page.users] == [NEW, NEW, "root"]
    assert [each.grant.name for each in page.unexpanded_groups] == ["analysts"]
    assert page.evaluated_queue == ""
    assert client.list_queues("alice", groups=["none"]) == []
    policy = client.get_policy()
    assert [queue.path for queue in policy.queues] == ["root", "root.default", "root.managed"]
    (template,) = policy.templates
    assert (template.path, template.kind) == ("root.managed", "leaf-queue-template")
    assert (template.submit_acl, template.admin_acl) == ("alice analysts", "ops")
    shown = [*server_state.policy_lines(policy, Colors(on=False))]
    assert "  root.managed  leaf-queue-template  submit 'alice analysts'  admin 'ops'" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_decides(policy: Path, kind: str) -> None:
    with (
        running_server("--policy", str(policy), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
        live_gate(server.address, kind) as gate,
    ):
        assert decides_itself(gate, "sue", "root.managed")
        for user in ("alice", "sue", "ops", "bob"):
            for access, groups in product(Access, ([], ["analysts"])):
                decision = gate.check(user, NEW, access=access, groups=groups or ["none"])
                asked = client.check(user, NEW, access=access, groups=groups or ["none"])
                assert decision == asked
                assert decides_itself(gate, user, NEW, access=access, groups=groups or ["none"])
        # Without a resolver, nobody is in the group of the same name.
        assert not gate.check("analysts", NEW)
        assert gate.check("analysts", NEW) == client.check("analysts", NEW)
        # A managed parent creates no deeper queues: only the server says who decides about them.
        below = f"{NEW}.below"
        assert not decides_itself(gate, "alice", below, groups=["none"])
        assert gate.check("sue", below) == client.check("sue", below)
        policy.write_text(creating_scheduler("mallory"))
        assert client.reload(wait=True).succeeded
        assert gate.check("mallory", NEW).allowed
        assert decides_itself(gate, "mallory", NEW)
        assert not gate.check("alice", NEW, groups=["none"]).allowed
        policy.write_text(creating_scheduler().replace(">true<", ">false<"))
        assert client.reload(wait=True).succeeded
        eventually(lambda: decides_itself(gate, "sue", NEW), True)
        assert not gate.check("alice", NEW, groups=["none"]).allowed
