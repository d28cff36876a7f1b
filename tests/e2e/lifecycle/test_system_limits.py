"""Limits of the system: a server starts and serves, or says what it needs."""

import resource
import subprocess
import threading
from pathlib import Path

import pytest

import queuegate
from queuegate_server.runtime import resources
from queuegate_server.runtime.resources import NEEDED_ADDRESS_SPACE, NEEDED_FILES, NEEDED_THREADS
from tests.support.servers.queuegate_server import server_command

LISTEN = ("--listen", "127.0.0.1:0")
POLICY = "partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]\n"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "queues.yaml"
    path.write_text(POLICY)
    return str(path)


def limited(option: str, limit: int, *arguments: str) -> list[str]:
    """Return a command of the server that runs with a limit of the shell."""
    script = f'ulimit {option} {limit} && exec "$@"'
    return ["/bin/bash", "-c", script, "bash", *server_command(*arguments)]


@pytest.mark.parametrize(
    ("option", "limit", "message"),
    [
        *(
            ("-n", files, f"the limit on open files is {files}, but a server needs at least 64")
            for files in (12, 16, 20, 24, 63)
        ),
        ("-v", 700_000, "the limit on address space is 683 MiB, but a server needs at least 2048"),
        ("-v", 200_000, "the limit on address space is 195 MiB, but a server needs at least 2048"),
        ("-d", 300_000, "the limit on data is 292 MiB, but a server needs at least 512 MiB"),
    ],
)
def test_too_little(policy: str, option: str, limit: int, message: str) -> None:
    ended = subprocess.run(
        limited(option, limit, "serve", "--policy", policy, *LISTEN),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert f"(ulimit {option}, Limit" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "limit"), [("-n", NEEDED_FILES), ("-v", NEEDED_ADDRESS_SPACE >> 10)]
)
def test_just_enough(policy: str, option: str, limit: int) -> None:
    rights = ("--set", "callers.loopback.roles=[check, admin]")
    command = limited(option, limit, "serve", "--policy", policy, *rights, *LISTEN)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().rstrip().rpartition(" on ")[2]
            with queuegate.Client(address, timeout=60) as client:
                assert client.check("alice", "root").allowed
                assert client.reload().succeeded
        finally:
            server.terminate()
            _, errors = server.communicate()
    assert "Traceback" not in errors


@pytest.mark.parametrize("command", ["validate", "lint"])
def test_commands_need_less(policy: str, command: str) -> None:
    """A file is read in steps, and not into a buffer of the largest size."""
    ended = subprocess.run(
        limited("-v", 300_000, command, policy),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 errors" in ended.stdout + ended.stderr


def test_too_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    start, left = threading.Thread.start, [5]

    def start_few(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    running = threading.active_count()
    with pytest.raises(resources.TooFewResources, match=f"5 threads.* {NEEDED_THREADS}: .*-u"):
        resources.check_limits()
    assert threading.active_count() == running
