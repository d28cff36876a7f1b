"""Several workers that cannot start, or are stopped while they start."""

import os
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import server_command
from tests.support.servers.workers import POLICY, WORKERS, failing_start


def test_an_invalid_policy_is_reported_once(tmp_path: Path) -> None:
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


def test_a_port_in_use_is_reported_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, stderr = failing_start("--listen", address)
    assert status == 2
    assert "in use" in stderr
    assert stderr.count("Error: ") == 1


def test_unix_sockets_are_for_one_worker(tmp_path: Path) -> None:
    status, _, stderr = failing_start("--listen", f"unix:{tmp_path}/q.sock")
    assert status == 2
    assert "several workers cannot listen on a Unix socket; use workers: 1" in stderr


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
        eventually(lambda: len(children.read_text().split()), WORKERS)
        os.kill(process.pid, number)
        stdout, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (0, "")
