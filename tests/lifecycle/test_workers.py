"""Several workers are one service: one start, one policy, one end."""

import os
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import policy_pb2, policy_pb2_grpc, user_groups_pb2, user_groups_pb2_grpc
from tests.lifecycle.workers import (
    POLICY,
    WORKERS,
    channels,
    check,
    is_alive,
    pids,
    revision,
    send,
    several_workers,
    wait_for_replacement,
    wait_until_gone,
    write_policy,
)
from tests.running import server_command
from tests.scripted_directory import ScriptedDirectory, settings_file
from tests.waiting import eventually


def failing_start(*arguments: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        server_command("serve", "--set", f"workers={WORKERS}", *arguments),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_all_workers_serve_on_one_port_and_end_together() -> None:
    with several_workers("--set", "log.level=debug") as server:
        processes = pids(server)
        assert sorted(processes) == list(range(WORKERS))
        assert not server.address.endswith(":0")
        with channels(server.address) as opened:
            for channel in opened:
                assert check(channel, "anybody")
        server.wait_for_log("call", count=16)
        assert {entry["worker"] for entry in server.logs if entry["event"] == "call"} == set(
            range(WORKERS)
        )
        # The supervisor serves nothing, and has no gRPC.
        assert "cygrpc" in Path(f"/proc/{processes[0]}/maps").read_text()
        assert "cygrpc" not in Path(f"/proc/{server.pid}/maps").read_text()
        assert server.stop() == 0
        assert not any(is_alive(pid) for pid in processes.values())
        assert sum(entry["event"] == "stopped" for entry in server.logs) == WORKERS + 1


def test_a_reload_reaches_all_workers(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    with (
        several_workers("--policy", str(path)) as server,
        queuegate.Client(server.address, timeout=30) as client,
        channels(server.address) as opened,
    ):
        assert [check(channel, "bob").allowed for channel in opened] == [False] * len(opened)
        write_policy(tmp_path, "bob")
        reloaded = client.reload()
        assert reloaded
        assert [check(channel, "bob").allowed for channel in opened] == [True] * len(opened)
        assert {revision(channel) for channel in opened} == {2}
        path.write_text(POLICY.replace("alice staff", "a b c"))
        assert not client.reload()
        assert {revision(channel) for channel in opened} == {2}


def test_the_revision_is_the_same_in_a_worker_that_came_later(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    with several_workers("--policy", str(path)) as server:
        with queuegate.Client(server.address, timeout=30) as client:
            for user in ("bob", "carol", "alice"):
                write_policy(tmp_path, user)
                assert client.reload()
        before = pids(server)[0]
        send(before, signal.SIGKILL)
        wait_for_replacement(server, 0, before)
        with channels(server.address) as opened:
            assert {revision(channel) for channel in opened} == {4}


def test_invalidation_reaches_all_workers(tmp_path: Path) -> None:
    directory = ScriptedDirectory(tmp_path)
    directory.answer({"sue": {"groups": []}})
    settings = {
        "policy": {"path": str(write_policy(tmp_path))},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
    }
    config = settings_file(tmp_path, settings)
    with (
        several_workers("--config", config, environment=directory.environment) as server,
        queuegate.Client(server.address, timeout=30) as client,
        channels(server.address) as opened,
    ):
        assert [check(channel, "sue").allowed for channel in opened] == [False] * len(opened)
        assert directory.asked("sue") == WORKERS
        directory.answer({"sue": {"groups": ["staff"]}})
        assert client.invalidate(["sue"]) == WORKERS
        assert [check(channel, "sue").allowed for channel in opened] == [True] * len(opened)


def test_what_a_worker_does_not_confirm_fails(tmp_path: Path) -> None:
    """A worker that hangs may still have what was to be forgotten: nobody is told it is gone."""
    with several_workers() as server:
        processes = pids(server)
        stopped = processes[0]
        send(stopped, signal.SIGSTOP)
        try:
            with channels(server.address, 24) as opened:
                stubs = [user_groups_pb2_grpc.UserGroupServiceStub(one) for one in opened]
                request = user_groups_pb2.InvalidateUserGroupsRequest()
                calls = [stub.InvalidateUserGroups.future(request, timeout=20) for stub in stubs]
                eventually(lambda: any(call.done() for call in calls), expected=True, seconds=20)
                codes = {call.code() for call in calls if call.done()}
                messages = {call.details() for call in calls if call.done()}
                for call in calls:
                    call.cancel()
        finally:
            send(stopped, signal.SIGCONT)
    assert codes == {grpc.StatusCode.UNAVAILABLE}
    assert any("worker 0 did not confirm" in message for message in messages)


def test_a_bad_policy_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(POLICY.replace("alice staff", "a b c"))
    status, stdout, stderr = failing_start("--policy", str(path), "--listen", "127.0.0.1:0")
    assert (status, stdout) == (2, "")
    # Lines of the log may come between.
    lines = [line for line in stderr.splitlines() if not line.startswith("{")]
    assert lines[0] == "Error: the policy cannot be served"
    assert lines[1].startswith(f"{path}:5:20: error: ")
    assert len(lines) == 2
    assert stderr.count(str(path)) == 1


def test_a_taken_port_is_told_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, stderr = failing_start("--listen", address)
    assert status == 2
    assert "in use" in stderr
    assert stderr.count("Error: ") == 1


def test_another_server_cannot_share_the_port() -> None:
    with several_workers() as server:
        status, _, stderr = failing_start("--listen", server.address)
        assert (status, "in use" in stderr) == (2, True)
        alone = subprocess.run(
            server_command("serve", "--listen", server.address),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (alone.returncode, "in use" in alone.stderr) == (2, True)


def test_unix_sockets_are_for_one_worker(tmp_path: Path) -> None:
    status, _, stderr = failing_start("--listen", f"unix:{tmp_path}/q.sock")
    assert status == 2
    assert "several workers cannot listen on a Unix socket; use workers: 1" in stderr


def test_workers_end_with_their_supervisor() -> None:
    with several_workers() as server:
        processes = list(pids(server).values())
        server.process.kill()
        wait_until_gone(processes)


def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    with several_workers("--set", "drain.delay=60s") as server:
        processes = list(pids(server).values())
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining", count=WORKERS)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == -signal.SIGTERM
        wait_until_gone(processes)


def test_a_crash_loop_is_slowed_down(tmp_path: Path) -> None:
    """A new worker cannot start on a broken policy; the others keep the last good one."""
    path = write_policy(tmp_path)
    with several_workers("--policy", str(path)) as server:
        path.write_text("partitions: [")
        server.wait_for_log("policy is not valid; the last good one stays", count=WORKERS)
        before = pids(server)[0]
        send(before, signal.SIGKILL)
        event = "a worker has ended and is replaced"
        third = server.wait_for_log(event, count=3, seconds=40)
        first = server.wait_for_log(event)
        assert first["status"] == -signal.SIGKILL
        assert "the policy cannot be served" in third["failure"]
        assert third["pause_seconds"] >= 0.5
        with channels(server.address) as opened:
            assert all(check(channel, "alice").allowed for channel in opened)
        write_policy(tmp_path)
        wait_for_replacement(server, 0, before)


def test_a_reload_of_a_worker_that_starts_waits_for_it(tmp_path: Path) -> None:
    path = write_policy(tmp_path)
    with several_workers("--policy", str(path)) as server:
        before = pids(server)[0]
        send(before, signal.SIGKILL)
        eventually(lambda: is_alive(before), expected=False)
        write_policy(tmp_path, "bob")
        with grpc.insecure_channel(server.address) as channel:
            stub = policy_pb2_grpc.PolicyServiceStub(channel)
            answer = stub.ReloadPolicy(
                policy_pb2.ReloadPolicyRequest(), timeout=40, wait_for_ready=True
            )
            assert (answer.succeeded, answer.revision) == (True, 2)
        wait_for_replacement(server, 0, before)
        with channels(server.address) as opened:
            assert {revision(channel) for channel in opened} == {2}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        server_command("serve", "--set", f"workers={WORKERS}", "--listen", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        eventually(lambda: len(children.read_text().split()), WORKERS, seconds=20)
        os.kill(process.pid, number)
        stdout, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (0, "")
