"""Workers that end, hang or cannot restart, and the end of the service."""

import signal
from pathlib import Path

import grpc

from queuegate.v1 import user_groups_pb2, user_groups_pb2_grpc
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.processes import freeze
from tests.support.servers.workers import (
    WORKERS,
    channels,
    check,
    is_alive,
    pids,
    send,
    several_workers,
    wait_for_replacement,
    wait_until_gone,
    write_policy,
)


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


def test_a_broadcast_that_a_worker_does_not_confirm_fails(tmp_path: Path) -> None:
    """A worker that hangs may still have invalidated entries, so the call must fail."""
    with several_workers() as server:
        processes = pids(server)
        stopped = processes[0]
        freeze(stopped)
        try:
            with channels(server.address, 24) as opened:
                stubs = [user_groups_pb2_grpc.UserGroupServiceStub(one) for one in opened]
                request = user_groups_pb2.InvalidateUserGroupsRequest()
                calls = [stub.InvalidateUserGroups.future(request, timeout=60) for stub in stubs]
                eventually(lambda: any(call.done() for call in calls), expected=True)
                codes = {call.code() for call in calls if call.done()}
                messages = {call.details() for call in calls if call.done()}
                for call in calls:
                    call.cancel()
        finally:
            send(stopped, signal.SIGCONT)
    assert codes == {grpc.StatusCode.UNAVAILABLE}
    assert any("worker 0 did not confirm" in message for message in messages)


def test_workers_end_with_their_supervisor() -> None:
    with several_workers() as server:
        processes = list(pids(server).values())
        server.process.kill()
        wait_until_gone(processes)


def test_a_second_signal_kills_all_workers(tmp_path: Path) -> None:
    with several_workers("--set", "drain.delay=60s") as server:
        processes = list(pids(server).values())
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining", count=WORKERS)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == -signal.SIGTERM
        wait_until_gone(processes)


def test_a_crash_loop_is_slowed_down(tmp_path: Path) -> None:
    """A new worker cannot start with an invalid policy; the others keep the last good one."""
    path = write_policy(tmp_path)
    with several_workers("--policy", str(path)) as server:
        replace(path, "partitions: [")
        server.wait_for_log("policy is not valid; the last good one stays in use", count=WORKERS)
        before = pids(server)[0]
        send(before, signal.SIGKILL)
        event = "a worker has exited and will be replaced"
        third = server.wait_for_log(event, count=3, seconds=120)
        first = server.wait_for_log(event)
        assert first["status"] == -signal.SIGKILL
        assert "the policy cannot be served" in third["failure"]
        assert third["pause_seconds"] >= 0.5
        with channels(server.address) as opened:
            assert all(check(channel, "alice").allowed for channel in opened)
        write_policy(tmp_path)
        wait_for_replacement(server, 0, before)
