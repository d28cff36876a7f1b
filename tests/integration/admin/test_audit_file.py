"""The file of the audit log of a running server: full disks, rotation, missing folders."""

import os
import resource
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.admin_port import ops_address, value
from tests.support.servers.audited_server import (
    ALLOWED,
    DENIED,
    audit_records,
    audited_server,
    decision_of,
)
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.workers import WORKERS, channels, check, several_workers, write_policy


def limit_files(server: RunningServer, size: int) -> None:
    """Limit the size of the server's files, like a full disk."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_block_with_a_full_disk(tmp_path: Path) -> None:
    """No call succeeds without its record; calls that need none do; the server recovers."""
    with audited_server(tmp_path) as (server, client):
        assert not client.check(*DENIED)
        size = (tmp_path / "audit.log").stat().st_size
        limit_files(server, size + 100)  # a part of a line
        for _ in range(2):
            with pytest.raises(queuegate.ServerUnavailable) as caught:
                client.check(*DENIED)
            assert (caught.value.code, caught.value.reason) == ("UNAVAILABLE", "AUDIT_UNAVAILABLE")
            assert caught.value.retry_after == 1
            with pytest.raises(queuegate.ServerUnavailable):
                client.explain(*DENIED)
            with pytest.raises(queuegate.ServerUnavailable):
                client.check_many([queuegate.Check(*ALLOWED), queuegate.Check(*DENIED)])
        assert client.check(*ALLOWED)
        assert (tmp_path / "audit.log").stat().st_size == size
        address = ops_address(server)
        assert value(address, "queuegate_audit_writable") == 0
        assert value(address, "queuegate_audit_records_total", "refused") == 6
        complaints = [entry for entry in server.logs if "cannot be written" in entry["event"]]
        assert [entry["consequence"] for entry in complaints] == ["calls fail"]
        limit_files(server, resource.RLIM_INFINITY)
        assert not client.check(*DENIED)
        assert value(address, "queuegate_audit_writable") == 1
        server.wait_for_log("the audit log is writable again")
    assert [decision_of(record) for record in audit_records(tmp_path)] == [
        decision_of(audit_records(tmp_path)[0])
    ] * 2


def test_drop_with_a_full_disk(tmp_path: Path) -> None:
    """All calls succeed; records beyond the buffer are counted, the others are written later."""
    with audited_server(tmp_path, when_unwritable="drop", buffer="4KiB") as (server, client):
        address = ops_address(server)

        def counted(result: str) -> float:
            return value(address, "queuegate_audit_records_total", result)

        assert not client.check(*DENIED)
        eventually(lambda: counted("written"), 1.0)
        limit_files(server, (tmp_path / "audit.log").stat().st_size + 100)
        for _ in range(40):
            assert not client.check(*DENIED)
        assert counted("dropped") > 0
        assert value(address, "queuegate_audit_waiting_bytes") > 0
        server.wait_for_log("the audit log cannot be written")
        limit_files(server, resource.RLIM_INFINITY)
        eventually(lambda: counted("written") + counted("dropped"), 41.0)
        eventually(lambda: value(address, "queuegate_audit_waiting_bytes"), 0.0)
        assert value(address, "queuegate_audit_writable") == 1
        written = counted("written")
    assert len(audit_records(tmp_path)) == written
    complaints = [entry for entry in server.logs if "cannot be written" in entry["event"]]
    assert len(complaints) <= 2


@pytest.mark.parametrize("policy", ["block", "drop"])
def test_a_device_that_is_always_full(tmp_path: Path, policy: str) -> None:
    (tmp_path / "audit.log").symlink_to("/dev/full")
    with audited_server(tmp_path, when_unwritable=policy) as (_, client):
        if policy == "drop":
            assert not client.check(*DENIED)
        else:
            with pytest.raises(queuegate.ServerUnavailable):
                client.check(*DENIED)
        assert client.check(*ALLOWED)


def test_block_when_nobody_reads_standard_output(tmp_path: Path) -> None:
    """A write that hangs becomes an error, and no call waits forever."""
    with audited_server(tmp_path, "-", records="all") as (server, client):
        # More than a pipe holds.
        question = [queuegate.Check("x" * 200, f"root.{'y' * 60}.open")] * 1_000
        start = time.monotonic()
        with pytest.raises(queuegate.ServerUnavailable) as caught:
            client.check_many(question)
        assert caught.value.reason == "AUDIT_UNAVAILABLE"
        for _ in range(20):  # at once: these do not wait two seconds each
            with pytest.raises(queuegate.ServerUnavailable):
                client.check(*DENIED)
        assert time.monotonic() - start < 40
        assert value(ops_address(server), "queuegate_audit_writable") == 0
        server.process.kill()


def test_rotation(tmp_path: Path) -> None:
    with audited_server(tmp_path, max_size="4KiB", keep=2, fsync="always") as (_, client):
        for number in range(80):
            client.check(f"user-{number}", "root.team")
    names = {path.name for path in tmp_path.glob("audit.log*")}
    assert names == {"audit.log", "audit.log.1", "audit.log.2"}
    assert all((tmp_path / name).stat().st_size <= 4096 for name in names)
    users = [
        record["user"]
        for record in audit_records(tmp_path, "audit.log.2", "audit.log.1", "audit.log")
    ]
    assert users == [f"user-{number}" for number in range(80)][-len(users) :]
    assert len(users) > 30


def test_a_file_that_another_program_rotates(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with audited_server(tmp_path) as (_, client):

        def users(name: str = "audit.log") -> list[str]:
            return [record["user"] for record in audit_records(tmp_path, name)]

        client.check("one", "root.team")
        file.rename(tmp_path / "audit.old")
        client.check("two", "root.team")
        assert (users("audit.old"), users()) == (["one"], ["two"])
        file.unlink()
        client.check("three", "root.team")
        assert users() == ["three"]
        os.truncate(file, 0)
        client.check("four", "root.team")
        assert users() == ["four"]


def test_a_folder_that_disappears_and_returns(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with audited_server(tmp_path, "logs/audit.log") as (_, client):
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(queuegate.ServerUnavailable):
            client.check(*DENIED)
        folder.mkdir()
        assert not client.check(*DENIED)
    assert len(audit_records(folder)) == 1


def test_files_keep_their_size_after_an_outage(tmp_path: Path) -> None:
    """The buffer may hold more than a file, and more than the disk has room for."""
    folder = tmp_path / "logs"
    folder.mkdir()
    changes: dict[str, Any] = {"when_unwritable": "drop", "max_size": "4KiB", "keep": 20}
    with audited_server(tmp_path, "logs/audit.log", **changes) as (server, client):
        folder.rename(tmp_path / "elsewhere")
        for _ in range(60):
            assert not client.check(*DENIED)
        server.wait_for_log("the audit log cannot be written")
        folder.mkdir()
        address = ops_address(server)
        eventually(lambda: value(address, "queuegate_audit_records_total", "written"), 60.0)
    files = list(folder.iterdir())
    assert all(file.stat().st_size <= 4096 for file in files)
    assert sum(len(audit_records(folder, file.name)) for file in files) == 60


def test_errors_at_the_start(tmp_path: Path) -> None:
    def starts_on(name: str) -> None:
        with running_server("--set", f"audit.path={tmp_path / name}"):
            pass

    with pytest.raises(AssertionError, match=r"audit log .*missing/x: No such file or directory"):
        starts_on("missing/x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AssertionError, match="pipe: is a pipe: use a file, or - for standard"):
        starts_on("pipe")
    with (
        audited_server(tmp_path, "taken"),
        pytest.raises(AssertionError, match="another process writes"),
    ):
        starts_on("taken")


def test_kill_loses_no_record_of_an_answered_call(tmp_path: Path) -> None:
    answered: list[str] = []
    with audited_server(tmp_path, records="all") as (server, client):

        def ask(worker: int) -> None:
            try:
                for number in range(100_000):
                    client.check(f"w{worker}-{number}", "root.open")
                    answered.append(f"w{worker}-{number}")
            except queuegate.QueuegateError:
                pass

        workers = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        eventually(lambda: len(answered) > 300, expected=True)
        server.process.send_signal(signal.SIGKILL)
        for worker in workers:
            worker.join()
    file = tmp_path / "audit.log"
    with file.open("ab") as torn:
        torn.write(b'{"time":"2026-')  # as a kill in the middle of a write leaves it
    with (
        running_server("--set", f"audit.path={file}") as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        assert not client.check("after", "root")
    recorded = [record["user"] for record in audit_records(tmp_path)]
    assert set(answered) <= set(recorded)
    assert recorded[-1] == "after"


def test_the_file_is_private(tmp_path: Path) -> None:
    with audited_server(tmp_path):
        assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o640


def test_each_worker_writes_its_own_file(tmp_path: Path) -> None:
    log = f"audit.path={tmp_path / 'audit.log'}"
    users = [f"user{number}" for number in range(32)]
    with (
        several_workers("--policy", str(write_policy(tmp_path)), "--set", log) as server,
        channels(server.address) as opened,
    ):
        for number, user in enumerate(users):
            assert not check(opened[number % len(opened)], user).allowed
    names = [f"audit.log.worker-{index}" for index in range(WORKERS)]
    assert sorted(each.name for each in tmp_path.glob("audit.log*")) == names
    assert sorted(record["user"] for record in audit_records(tmp_path, *names)) == sorted(users)
