"""Gates decide as their server does, and ask it about all that they cannot know."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import queuegate
from queuegate import AccessName, Check, GateState
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.processes import freeze
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.servers.two_partitions import (
    SharedServer,
    two_partitions,
)


@pytest.fixture(params=KINDS)
def gate(
    request: pytest.FixtureRequest, shared: SharedServer, client: object
) -> Iterator[queuegate.Gate]:
    with live_gate(shared.server.address, request.param) as opened:
        yield opened


def learn(gate: queuegate.Gate, user: str, **question: str) -> None:
    """Have a gate learn the groups of a user."""
    eventually(lambda: decides_itself(gate, user, "root.work", **question), True)


def test_questions_without_groups_are_decided_at_once(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    questions: tuple[tuple[str, str, AccessName], ...] = (
        ("alice", "root.work", "submit"),
        ("boss", "root.open", "admin"),
        ("eve", "root.open", "submit"),
        ("eve", "root.open.new", "submit"),
        ("eve", "root.@recovery@", "submit"),
        ("eve", "ROOT.Open", "submit"),
    )
    for user, queue, access in questions:
        before = gate.decided
        assert gate.check(user, queue, access=access) == client.check(user, queue, access=access)
        assert gate.decided == before + 1, (user, queue)
    assert directory.asked() == 0


def test_groups_are_asked_for_and_then_known(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    assert not decides_itself(gate, "sam", "root.work")
    for user in ("sam", "eve", "stranger"):
        learn(gate, user)
        assert gate.check(user, "root.work") == client.check(user, "root.work")
    assert gate.check("sam", "root.work").reason == "group"
    assert gate.check("stranger", "root.work").reason == "unknown_user"
    asked = directory.asked()
    assert decides_itself(gate, "sam", "root.work")
    assert directory.asked() == asked


def test_a_user_who_cannot_be_looked_up_is_asked_about(
    gate: queuegate.Gate, directory: ScriptedDirectory
) -> None:
    for _ in range(2):
        with pytest.raises(queuegate.GroupsUnavailable):
            gate.check("dora", "root.work")


def test_given_groups_count_for_their_question_only(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    for groups in (("staff",), ("guests",), ["staff"]):
        given = gate.check("eve", "root.work", groups=groups)
        assert given == client.check("eve", "root.work", groups=groups)
    assert not gate.check("eve", "root.work")


def test_invalid_questions_fail_as_those_of_a_client(
    gate: queuegate.Gate, directory: ScriptedDirectory
) -> None:
    with pytest.raises(ValueError, match="user must not be empty"):
        gate.check("", "root")
    with pytest.raises(TypeError, match="queue must be a str"):
        gate.check("alice", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="access must be one of"):
        gate.check("alice", "root", access="write")  # type: ignore[arg-type]
    for user, queue in (("a\nb", "root.open"), ("x" * 2_000, "root.open"), ("alice", "other.a")):
        with pytest.raises(queuegate.InvalidArgument):
            gate.check(user, queue)
    with pytest.raises(queuegate.UnknownPartition):
        gate.check("alice", "root.open", partition="no")


def test_a_batch_sends_only_what_the_gate_cannot_decide(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    questions = [
        Check("alice", "root.work"),
        Check("sam", "root.work"),
        Check("eve", "root.open", "other"),
        Check("dora", "root.work"),
        Check("alice", "root.work", "no"),
    ]
    before = gate.decided
    answers = gate.check_many(questions)
    assert gate.decided == before + 2
    expected = client.check_many(questions)
    assert answers[:3] == expected[:3]
    assert [type(each) for each in answers] == [type(each) for each in expected]


def test_queues_are_listed(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    learn(gate, "sam")
    for question in (
        {"user": "sam"},
        {"user": "sam", "prefix": "root.open"},
        {"user": "boss", "access": "admin"},
        {"user": "eve", "groups": ["staff"]},
        {"user": "sam", "partition": "other"},
    ):
        assert gate.list_queues(**question) == client.list_queues(**question)


def test_other_calls_are_those_of_a_client(
    gate: queuegate.Gate, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    assert gate.explain("sam", "root.work").decision == client.check("sam", "root.work")
    assert gate.get_policy() == client.get_policy()
    assert gate.check_health() is queuegate.HealthStatus.SERVING


def test_only_the_named_partitions_are_held(shared: SharedServer, client: queuegate.Client) -> None:
    with live_gate(shared.server.address, partitions=["other"]) as gate:
        assert decides_itself(gate, "alice", "root.work", partition="other")
        assert not decides_itself(gate, "alice", "root.work")


def test_many_threads_share_a_gate(shared: SharedServer, client: queuegate.Client) -> None:
    wrong: list[str] = []

    def ask(gate: queuegate.Gate, number: int) -> None:
        for index in range(500):
            user = ("alice", "sam", "eve", f"u{number}-{index}")[index % 4]
            if gate.check(user, "root.work").allowed != (user in {"alice", "sam"}):
                wrong.append(user)

    shared.directory.answer({f"u{n}-{i}": {"groups": []} for n in range(8) for i in range(500)})
    with live_gate(shared.server.address) as gate:
        threads = [threading.Thread(target=ask, args=(gate, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not wrong


def test_a_closed_gate_decides_nothing(shared: SharedServer, client: queuegate.Client) -> None:
    with live_gate(shared.server.address) as gate:
        gate.check("alice", "root.work")
    assert gate.state is GateState.CLOSED
    with pytest.raises(queuegate.ClientClosed, match="the gate is closed"):
        gate.check("alice", "root.work")


async def test_a_closed_asyncio_gate_decides_nothing(shared: SharedServer) -> None:
    async with queuegate.aio.Gate(shared.server.address, timeout=60) as gate:
        await gate.check("alice", "root.work")
    assert gate.state is GateState.CLOSED
    with pytest.raises(queuegate.ClientClosed, match="the gate is closed"):
        await gate.check("alice", "root.work")


def test_an_asyncio_gate_needs_a_loop_and_keeps_to_it(
    shared: SharedServer, client: queuegate.Client
) -> None:
    with pytest.raises(RuntimeError, match=r"queuegate\.aio\.Gate must be created inside"):
        queuegate.aio.Gate(shared.server.address)

    async def make() -> queuegate.aio.Gate:
        return queuegate.aio.Gate(shared.server.address)

    async def use(gate: queuegate.aio.Gate) -> None:
        await gate.check("sam", "root.work")

    with asyncio.Runner() as first, asyncio.Runner() as second:
        gate = first.run(make())
        with pytest.raises(RuntimeError, match="the gate belongs to another event loop"):
            second.run(use(gate))
        first.run(gate.close())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on
def test_a_child_process_does_not_decide(shared: SharedServer, client: queuegate.Client) -> None:
    with live_gate(shared.server.address) as gate:
        gate.check("alice", "root.work")
        decide = gate._decider.decide
        child = os.fork()
        if child == 0:
            made = decide(("alice", "root.work", "default", "submit", None, ""))
            try:
                gate.check("alice", "root.work")
            except RuntimeError:
                gate.close()
                os._exit(0 if gate.state is GateState.CLOSED and made is None else 1)
            os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # gRPC may end a child that was forked while a thread was inside it.
        assert status == 0 or status < 0
        assert decides_itself(gate, "alice", "root.work")


def test_a_program_ends_that_has_not_closed_its_gate(shared: SharedServer) -> None:
    program = """
import asyncio, sys, queuegate
async def main():
    gate = queuegate.aio.Gate(sys.argv[1], timeout=60)
    while gate.state != "live":
        await asyncio.sleep(0.01)
    print((await gate.check("alice", "root.work")).allowed)
asyncio.run(main())
"""
    command = [sys.executable, "-c", program, shared.server.address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_without_the_server_a_lease_ends(directory: ScriptedDirectory) -> None:
    changes: list[None] = []
    with (
        two_partitions(directory) as server,
        live_gate(server.address, timeout=1, on_change=lambda: changes.append(None)) as gate,
        live_gate(server.address, timeout=1, stale=600) as old,
    ):
        assert changes
        for each in (gate, old):
            each.check("alice", "root.work")
        freeze(server.pid)
        try:
            eventually(lambda: gate.state, GateState.EXPIRED)
            with pytest.raises(queuegate.Unavailable):
                gate.check("alice", "root.work")
            eventually(lambda: old.state, GateState.EXPIRED)
            eventually(lambda: age(old), "stale")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        eventually(lambda: gate.state, GateState.LIVE)
        eventually(lambda: age(old), "current")


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_killed_is_logged_once(
    directory: ScriptedDirectory, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "queuegate.gate")

    def logged() -> list[str]:
        return [record.message for record in caplog.records if record.name == "queuegate.gate"]

    with two_partitions(directory) as server, live_gate(server.address, kind) as gate:
        server.process.kill()
        eventually(lambda: len(logged()) > 1, expected=True)
        policy = directory.folder / "queues.yaml"
        with running_server("--policy", str(policy), *ADMIN, listen=[server.address]):
            eventually(lambda: "a gate's stream is connected again" in logged(), expected=True)
            messages = logged()
        assert gate.resets == 1
    assert len(messages) == len(set(messages))
    assert "if it requires" not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_waits_for_a_gate_that_is_closed_before_it_is_live(
    shared: SharedServer, client: queuegate.Client, kind: str
) -> None:
    def is_waited_for() -> bool:
        KINDS[kind](shared.server.address).close()
        return bool(client.invalidate(["nobody"], wait=True).waited_out)

    eventually(is_waited_for, False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_change": 3}, TypeError, "on_change must be callable, not int"),
        ({"on_decision": 3}, TypeError, "on_decision must be callable, not int"),
        ({"stale": -1}, ValueError, "stale must be 0 to 24 h, not -1 s"),
        ({"stale": 86_401}, ValueError, "stale must be 0 to 24 h, not 86401 s"),
        ({"stale": None}, TypeError, "stale must be a number of seconds, not NoneType"),
        ({"stale": ""}, TypeError, "stale must be a number of seconds, not str"),
    ],
)
def test_a_gate_is_not_created_with_invalid_arguments(
    options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        queuegate.Gate("127.0.0.1:1", **options)


def test_invalid_arguments_are_reported_for_local_decisions_too(gate: queuegate.Gate) -> None:
    with pytest.raises(ValueError, match="timeout"):
        gate.check("alice", "root.work", timeout=0)
    with pytest.raises(TypeError, match="timeout"):
        gate.check_many([Check("alice", "root.work")], timeout="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        gate.list_queues("alice", timeout=-1)
    with pytest.raises(TypeError, match="at_least must be a Cursor, not str"):
        gate.check("alice", "root.work", at_least="x")  # type: ignore[arg-type]


def age(gate: queuegate.Gate) -> str:
    """Return how old a decision is."""
    try:
        return "stale" if gate.check("alice", "root.work").stale else "current"
    except queuegate.Unavailable:
        return "no answer"


@pytest.mark.parametrize("setting", ["callers.loopback.roles=check,read", "sync.streams=0"])
def test_a_gate_that_may_not_decide_asks(policy: os.PathLike[str], setting: str) -> None:
    arguments = ("--policy", str(policy), "--set", setting)
    with running_server(*arguments) as server, queuegate.Gate(server.address, timeout=60) as gate:
        assert gate.check("alice", "root").allowed
        assert gate.decided == 0
        assert gate.state is not GateState.LIVE
