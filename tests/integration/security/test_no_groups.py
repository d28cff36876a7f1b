"""A question without groups has them looked up; one that says "no groups" does not.

Each user of the resolver `none` is in the group of the same name, and so is let in by it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import Application, ApplicationCheck, Check, GroupsOrigin, Reason
from queuegate.cli import main
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.integration.security.authorities import configured
from tests.support.eventually import eventually
from tests.support.gates import KINDS, decides_itself, live_gate

QUEUE = "root.team"
GROUPS: dict[Any, bool] = {None: True, (): False, ("sue",): True, ("other",): False}
"""Whether they let sue in."""


@contextmanager
def serving(folder: Path, **more: object) -> Iterator[tuple[str, str]]:
    """Serve a caller who may not assert groups over TCP, and one who may over a socket."""
    (folder / "yunikorn.yaml").write_text(
        "partitions: [{name: default, queues: [{name: root, queues: ["
        '{name: team, submitacl: " sue"}]}]}]'
    )
    (folder / "fair.xml").write_text(
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps>"
        "<queue name='team'><aclAdministerApps> sue</aclAdministerApps></queue></queue>"
        "</allocations>"
    )
    policies = [
        {"path": str(folder / "yunikorn.yaml")},
        {"path": str(folder / "fair.xml"), "partition": "yarn", "format": "fair-scheduler"},
    ]
    roles = ["check", "read", "sync"]
    rights = {
        "unix": {"assert_groups": True, "roles": roles},
        "loopback": {"assert_groups": False, "roles": roles},
    }
    settings: dict[str, Any] = {
        "callers": rights,
        "policy": None,
        "policies": policies,
        "resolvers": {"own name": {"type": "none"}},
        "partitions": {"yarn": {"resolver": "own name"}},
        **more,
    }
    listen = ["127.0.0.1:0", f"unix:{folder}/q.sock"]
    with configured(folder, listen, **settings) as running:
        tcp, unix = running.address.split(", ")
        yield tcp, unix


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with serving(tmp_path_factory.mktemp("no-groups")) as served:
        yield served


Answers = Callable[[queuegate.Client, Any], bool]
APPLICATION = Application("root.team", "olga")
CALLS: dict[str, Answers] = {
    "check": lambda client, groups: bool(client.check("sue", QUEUE, groups=groups)),
    "batch": lambda client, groups: (
        client.check_many([Check("sue", QUEUE, groups=groups)])[0].allowed
    ),
    "columns": lambda client, groups: (
        client.check_many(
            [Check("sue", QUEUE, groups=each) for each in (groups, *GROUPS) for _ in range(32)]
        )[0].allowed
    ),
    "explain": lambda client, groups: bool(client.explain("sue", QUEUE, groups=groups)),
    "list": lambda client, groups: QUEUE in client.list_queues("sue", groups=groups),
    "list with via": lambda client, groups: any(
        each.queue == QUEUE for each in client.explain_queues("sue", groups=groups)
    ),
    "application": lambda client, groups: bool(
        client.check_application("sue", "view", APPLICATION, partition="yarn", groups=groups)
    ),
    "applications": lambda client, groups: (
        client.check_applications([ApplicationCheck("sue", "view", APPLICATION, "yarn", groups)])[
            0
        ].allowed
    ),
    "explained application": lambda client, groups: bool(
        client.explain_application("sue", "view", APPLICATION, partition="yarn", groups=groups)
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_in_any_order(addresses: tuple[str, str], call: str) -> None:
    """Each is asked twice, so that no answer from a cache is that of another question."""
    tcp, unix = addresses
    with queuegate.Client(unix, timeout=60) as believed, queuegate.Client(tcp, timeout=60) as other:
        for groups in (*GROUPS, *reversed(GROUPS), []):
            expected = GROUPS[groups if groups is None else tuple(groups)]
            assert CALLS[call](believed, groups) is expected, groups
            assert CALLS[call](other, groups) is True, groups


@pytest.mark.parametrize("kind", KINDS)
def test_gates(addresses: tuple[str, str], kind: str) -> None:
    tcp, unix = addresses
    with live_gate(unix, kind) as believed, live_gate(tcp, kind) as other:
        for gate in (believed, other):
            eventually(partial(decides_itself, gate, "sue", QUEUE), True)
        for groups in (*GROUPS, *reversed(GROUPS), []):
            expected = GROUPS[groups if groups is None else tuple(groups)]
            before = believed.decided, other.decided
            assert bool(believed.check("sue", QUEUE, groups=groups)) is expected, groups
            assert bool(other.check("sue", QUEUE, groups=groups)) is True, groups
            assert (QUEUE in believed.list_queues("sue", groups=groups)) is expected
            (result,) = believed.check_many([Check("sue", QUEUE, groups=groups)])
            assert result.allowed is expected
            assert (believed.decided - before[0], other.decided - before[1]) == (2, 1)


def test_no_groups_are_given_groups(addresses: tuple[str, str]) -> None:
    with queuegate.Client(addresses[1], timeout=60) as client:
        explained = client.explain("sue", QUEUE, groups=())
        assert explained.decision.reason is Reason.NO_MATCH
        assert (explained.groups.origin, explained.groups.groups) == (GroupsOrigin.REQUEST, ())
        # As with groups: YuniKorn accepts only some names then.
        with pytest.raises(queuegate.InvalidArgument, match="user name"):
            client.check("a b", QUEUE, groups=())
        assert not client.check("a b", QUEUE)


@pytest.mark.parametrize("method", ["CheckQueueAccess", "ExplainQueueAccess", "ListQueues"])
def test_not_together_with_groups(addresses: tuple[str, str], method: str) -> None:
    request = getattr(access_pb2, f"{method}Request")(access=access_pb2.ACCESS_TYPE_SUBMIT)
    if method != "ListQueues":
        request.queue = QUEUE
    request.user.user = "sue"
    request.user.groups.append("sue")
    request.user.no_groups = True
    with queuegate.Client(addresses[1], timeout=60) as client:
        stub = access_pb2_grpc.AccessServiceStub(client._calls._channel)
        with pytest.raises(queuegate.InvalidArgument) as caught:
            client._calls.ask(getattr(stub, method), request, client._calls.deadline(None))
    assert str(caught.value) == "user.no_groups: must not be set together with groups"


def test_records_tell_them_apart(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    with serving(tmp_path, audit={"path": str(log)}, sync={"local_decisions": "allow"}) as (
        _,
        unix,
    ):
        with queuegate.Client(unix, timeout=60) as client:
            for groups in ((), None, ("a", "b")):
                client.check("eve", QUEUE, groups=groups)
            client.check_many([Check("eve", QUEUE, groups=())] * 64)
            application = Application("root.team", "olga")
            client.check_application("eve", "view", application, partition="yarn", groups=())
        assert [each.get("groups_in_request") for each in records(log)] == [0, None, 2, *[0] * 65]
        told: list[dict[str, Any]] = []
        with live_gate(unix, on_decision=told.append) as gate:
            for given in ((), ("a", "b")):
                assert decides_itself(gate, "gus", QUEUE, groups=given)
        assert [each["groups_in_request"] for each in told] == [0, 2]


def records(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_on_the_command_line(
    addresses: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--address", addresses[1], "--timeout", "60"]
    asked = ["check", "sue", QUEUE]
    assert main([*base, *asked]) == 0
    assert main([*base, *asked, "--no-groups"]) == 1
    assert main([*base, "queues", "sue", "--no-groups"]) == 0
    application = ["app-check", "sue", "view", "--queue", "root.team", "--owner", "olga"]
    assert main([*base, *application, "--partition", "yarn"]) == 0
    assert main([*base, *application, "--partition", "yarn", "--no-groups"]) == 1
    capsys.readouterr()
    assert main([*base, *asked, "--no-groups", "--group", "sue"]) == 2
    assert "--no-groups: not allowed with --group" in capsys.readouterr().err
    assert main([*base, "explain", "sue", QUEUE, "--no-groups"]) == 1
    assert "groups: none (from the request" in capsys.readouterr().out
    assert main([*base, "tree", "--no-groups"]) == 2
    assert "--no-groups" in capsys.readouterr().err
