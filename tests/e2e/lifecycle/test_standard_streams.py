"""A server whose standard output or error is closed or full."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import server_command


@contextmanager
def started(redirections: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `queuegate-server serve` in a shell, with redirections."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", *server_command("serve", *arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def answers(address: str) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            with queuegate.Client(address, timeout=60) as client:
                return bool(client.check("alice", "root.sandbox"))
        except queuegate.ServerUnavailable:
            return False

    return ask


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", ">/dev/full"])
def test_it_serves_all_the_same(tmp_path: Path, redirections: str) -> None:
    address = f"unix:{tmp_path}/q.sock"
    with started(redirections, "--listen", address) as process:
        eventually(answers(address), expected=True)
        for number in "012" if "&-" in redirections else "":
            # No connection may have the number that something else is written to.
            assert str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) == "/dev/null"
        process.terminate()
        _, log = process.communicate(timeout=180)
        assert process.returncode == 0
    assert ("cannot write to standard output" in log) == ("full" in redirections)


def test_no_audit_log_to_a_closed_stream(tmp_path: Path) -> None:
    """Records would be lost without notice."""
    listen = ("--listen", f"unix:{tmp_path}/q.sock")
    with started(">&-", *listen, "--set", "audit.path=-") as process:
        _, log = process.communicate(timeout=180)
        assert process.returncode == 2
    assert log == "Error: cannot write the audit log -: standard output is closed\n"
