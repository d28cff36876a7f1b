"""A server with several workers, and calls that are known to reach each of them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from queuegate.v1 import access_pb2, access_pb2_grpc, policy_pb2, policy_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import (
    ADMIN,
    RunningServer,
    running_server,
    server_command,
)

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "alice staff"
"""
WORKERS = 2


def write_policy(folder: Path, user: str = "alice") -> Path:
    path = folder / "queues.yaml"
    new = folder / "queues.new"
    new.write_text(POLICY.replace("alice", user))
    new.replace(path)
    return path


@contextmanager
def several_workers(*arguments: str, **options: Any) -> Iterator[RunningServer]:
    with running_server(*ADMIN, "--set", f"workers={WORKERS}", *arguments, **options) as server:
        yield server


def failing_start(*arguments: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        server_command("serve", "--set", f"workers={WORKERS}", *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def pids(server: RunningServer) -> dict[int, int]:
    """Return the latest process of each worker, by index."""
    server.wait_for_log("a worker is serving", count=WORKERS)
    return {
        entry["index"]: entry["pid"]
        for entry in server.logs
        if entry["event"] == "a worker is serving"
    }


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    return _status(pid)[0] not in "ZX"


def is_child(pid: int, parent: int) -> bool:
    """Return whether a process runs and is a child of the other one."""
    state, of = _status(pid)
    return state not in "ZX" and of == parent


def _status(pid: int) -> tuple[str, int]:
    """Return the state of a process, and its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return fields[0], int(fields[1])


def wait_for_replacement(server: RunningServer, index: int, pid: int) -> int:
    """Return the process that replaced one that has ended."""
    eventually(lambda: pids(server)[index] != pid, expected=True)
    return pids(server)[index]


@contextmanager
def channels(address: str, count: int = 16) -> Iterator[list[grpc.Channel]]:
    """Open separate connections, which the kernel distributes over the workers.

    The chance that all of them reach the same one of two workers is 1 in 32,768.
    """
    opened = [
        grpc.insecure_channel(
            address,
            options=(("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)),
        )
        for _ in range(count)
    ]
    try:
        yield opened
    finally:
        for channel in opened:
            channel.close()


def check(channel: grpc.Channel, user: str, seconds: float = 60) -> Any:
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user),
        queue="root.x",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    return access_pb2_grpc.AccessServiceStub(channel).CheckQueueAccess(
        request, timeout=seconds, wait_for_ready=True
    )


def revision(channel: grpc.Channel) -> int:
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    return int(stub.GetPolicy(policy_pb2.GetPolicyRequest(), timeout=60).revision)


def send(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)


def wait_until_gone(processes: list[int], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while left := [pid for pid in processes if is_alive(pid)]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.02)
