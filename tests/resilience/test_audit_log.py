"""The disk of the audit log is full, and the policy is `block`."""

import json
import resource
from pathlib import Path

import pytest

import queuegate
from tests.resilience.invariants import Record, under_load
from tests.support.servers.queuegate_server import RunningServer, running_server

ROOM = 2_000


def limit_files(server: RunningServer, size: int) -> None:
    """Let the kernel refuse to write files beyond a size: a write becomes a part of itself
    and then an error, as on a disk that fills up; and it can be taken back.
    """
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def recorded(path: Path) -> set[str]:
    """Return the queues of whole records; a file may end in the middle of one."""
    return {json.loads(line)["queue"] for line in path.read_bytes().splitlines()}


def test_full_disk_under_block(tmp_path: Path, policy_file: Path, record: Record) -> None:
    """No call is answered without its record, and calls are answered again when there is room."""
    path = tmp_path / "audit.log"
    settings = ["audit.records=all", f"audit.path={path}"]
    arguments = [part for setting in settings for part in ("--set", setting)]
    with running_server("--policy", str(policy_file), *arguments) as server:
        with under_load(server, record) as fault:
            limit_files(server, path.stat().st_size + ROOM)
            server.wait_for_log("the audit log cannot be written")
            limit_files(server, path.stat().st_size)  # a smaller write could still fit
            no_retry = queuegate.Retry(attempts=1)
            with queuegate.Client(server.address, timeout=60, retry=no_retry) as client:
                for _ in range(100):
                    with pytest.raises(queuegate.ServerUnavailable):
                        client.check("alice", "root.work")
            with fault.expected_to_serve():
                limit_files(server, resource.RLIM_INFINITY)
        answered = fault.report["answered"]
    numbers = {int(queue.rpartition(".n")[2]) for queue in recorded(path) if ".n" in queue}
    record("answered", len(answered))
    record("answered without a record", len(set(answered) - numbers))
    assert set(answered) <= numbers
