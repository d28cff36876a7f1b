"""The audit log of a running server: what is recorded, and what happens when it cannot be."""

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.ops_port import LISTEN, ops_address, value
from tests.running import RunningServer, running_server
from tests.scripted_directory import ScriptedDirectory, settings_file
from tests.waiting import eventually

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: team, submitacl: "alice staff"}
"""
ALLOWED, DENIED = ("alice", "root.team"), ("bob", "root.team")


def log(folder: Path, *names: str) -> list[dict[str, Any]]:
    """Return the records of the log; fails if one of them is no whole line of JSON."""
    records = []
    for name in names or ("audit.log",):
        text = (folder / name).read_bytes().decode("ascii") if (folder / name).exists() else ""
        assert not text or text.endswith("\n")
        records += [json.loads(line) for line in text.splitlines()]
    return records


@contextmanager
def auditing(
    folder: Path, path: str = "audit.log", **audit: Any
) -> Iterator[tuple[RunningServer, queuegate.Client]]:
    (folder / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(folder)
    directory.answer({"carol": {"groups": ["staff"]}, "dave": {"failed": "down"}})
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
        "audit": {"path": path if path == "-" else str(folder / path), **audit},
    }
    no_retry = queuegate.Retry(attempts=1)
    with (
        running_server(
            "--config", settings_file(folder, settings), *LISTEN,
            environment=directory.environment,
        ) as server,
        queuegate.Client(server.address, timeout=60, retry=no_retry) as client,
    ):  # fmt: skip
        yield server, client


def told(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(key) for key in ("user", "queue", "decision", "reason"))


def ask_everything(address: str, client: queuegate.Client) -> None:
    for _ in range(2):  # the second time from the memo
        assert client.check(*ALLOWED)
        assert not client.check(*DENIED)
        assert client.check("carol", "root.team")
    with pytest.raises(queuegate.GroupsUnavailable):
        client.check("dave", "root.team")
    with pytest.raises(queuegate.InvalidArgument):
        client.check("eve\n", "root..team")
    client.check_many([queuegate.Check(*ALLOWED), queuegate.Check(*DENIED)])
    columns = [queuegate.Check(*pair) for pair in (ALLOWED, DENIED)] * 32
    assert client.check_many([*columns, queuegate.Check("dave", "root.team")])[0]
    client.explain(*DENIED)
    spark = queuegate.SparkApplication({"spark.acls.enable": "true"}, spark_user="alice")
    kill = queuegate.ApplicationCheck("mallory", "modify", spark, groups=["x"])
    client.check_application(kill)
    client.explain_application(kill)
    yarn = queuegate.Application(queue="root.team", owner="alice")
    client.check_applications([kill, queuegate.ApplicationCheck("mallory", "view", yarn)])
    item = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="mallory", groups=["a", "b"]),
        queue="root.TEAM",
        access=access_pb2.ACCESS_TYPE_ADMIN,
    )
    batch = access_pb2.BatchCheckQueueAccessRequest(checks=[item, item])
    with grpc.insecure_channel(address) as channel:
        requests = iter([access_pb2.StreamQueueAccessRequest(batch=batch)] * 2)
        stub = access_pb2_grpc.AccessServiceStub(channel)
        assert len(list(stub.StreamQueueAccess(requests))) == 2


DENIALS = [
    *[("CheckQueueAccess", "bob", "root.team", "denied", "unknown_user")] * 2,
    ("CheckQueueAccess", "dave", "root.team", "error", "resolver_unavailable"),
    ("CheckQueueAccess", "eve\n", "root..team", "error", "invalid_field"),
    ("BatchCheckQueueAccess", "bob", "root.team", "denied", "unknown_user"),
    *[("CheckQueueAccessColumns", "bob", "root.team", "denied", "unknown_user")] * 32,
    ("CheckQueueAccessColumns", "dave", "root.team", "error", "resolver_unavailable"),
    ("ExplainQueueAccess", "bob", "root.team", "denied", "unknown_user"),
    ("CheckApplicationAccess", "mallory", "", "denied", "no_match"),
    ("ExplainApplicationAccess", "mallory", "", "denied", "no_match"),
    ("BatchCheckApplicationAccess", "mallory", "", "denied", "no_match"),
    ("BatchCheckApplicationAccess", "mallory", "root.team", "error", "invalid_field"),
    *[("StreamQueueAccess", "mallory", "root.TEAM", "denied", "no_match")] * 4,
]
ALLOWALS = [
    *[("CheckQueueAccess", "alice", "root.team", "allowed", "user")] * 2,
    *[("CheckQueueAccess", "carol", "root.team", "allowed", "group")] * 2,
    ("BatchCheckQueueAccess", "alice", "root.team", "allowed", "user"),
    *[("CheckQueueAccessColumns", "alice", "root.team", "allowed", "user")] * 32,
]


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(
    ("policy", "records", "expected"),
    [("block", "denials", DENIALS), ("drop", "all", DENIALS + ALLOWALS)],
)
def test_what_is_recorded(
    tmp_path: Path, policy: str, records: str, expected: list[tuple[str, ...]]
) -> None:
    with auditing(tmp_path, records=records, when_unwritable=policy) as (server, client):
        ask_everything(server.address, client)
        # Nothing but its number is asked of a file that is still being written.
        eventually(lambda: (tmp_path / "audit.log").read_bytes().count(b"\n"), len(expected))
        found = log(tmp_path)
        assert sorted((record["method"], *told(record)) for record in found) == sorted(expected)
        written = partial(value, ops_address(server), "queuegate_audit_records_total", "written")
        eventually(written, float(len(found)))
    for record in found:
        assert record["time"].endswith("Z")
        assert record["partition"] == "default"
        assert "caller" in record
        if "Application" in record["method"]:
            assert record["action"] == ("view" if record["queue"] else "modify")
            assert record["owner"] == "alice"
    assert not (tmp_path / "audit.log").stat().st_mode & 0o137


def test_a_record_says_all(tmp_path: Path) -> None:
    with auditing(tmp_path, records="all") as (_, client):
        client.check("carol", "root.team")
        client.check("erin", "root.team", groups=["staff"])
        carol, erin = log(tmp_path)
    assert carol.pop("time") < erin.pop("time")
    assert carol == {
        "caller": "loopback",
        "method": "CheckQueueAccess",
        "user": "carol",
        "partition": "default",
        "queue": "root.team",
        "access": "submit",
        "decision": "allowed",
        "reason": "group",
        "matched_queue": "root.team",
        "matched_name": "staff",
        "revision": 1,
    }
    assert erin == {**carol, "user": "erin", "groups_in_request": 1}


@pytest.mark.parametrize("audit", [{"records": "none"}, {"path": None}])
def test_off(tmp_path: Path, audit: dict[str, Any]) -> None:
    settings = settings_file(tmp_path, {"audit": {"path": str(tmp_path / "audit.log"), **audit}})
    with (
        running_server("--config", settings) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        client.check("nobody", "root")
    assert not (tmp_path / "audit.log").exists()


def test_standard_output(tmp_path: Path) -> None:
    with auditing(tmp_path, "-") as (server, client):
        client.check(*DENIED)
        assert server.process.stdout
        assert told(json.loads(server.process.stdout.readline()))[2] == "denied"


def limit_files(server: RunningServer, size: int) -> None:
    """Let no file of the server grow beyond a size, as a full disk does."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_block_with_a_full_disk(tmp_path: Path) -> None:
    """No answer without its record; what needs none is answered; it recovers by itself."""
    with auditing(tmp_path) as (server, client):
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
        server.wait_for_log("the audit log can be written again")
    assert [told(record) for record in log(tmp_path)] == [told(log(tmp_path)[0])] * 2


def test_drop_with_a_full_disk(tmp_path: Path) -> None:
    """All is answered; what has no room in the buffer is counted; the rest is written later."""
    with auditing(tmp_path, when_unwritable="drop", buffer="4KiB") as (server, client):
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
    assert len(log(tmp_path)) == written
    complaints = [entry for entry in server.logs if "cannot be written" in entry["event"]]
    assert len(complaints) <= 2


@pytest.mark.parametrize("policy", ["block", "drop"])
def test_a_device_that_is_always_full(tmp_path: Path, policy: str) -> None:
    (tmp_path / "audit.log").symlink_to("/dev/full")
    with auditing(tmp_path, when_unwritable=policy) as (_, client):
        if policy == "drop":
            assert not client.check(*DENIED)
        else:
            with pytest.raises(queuegate.ServerUnavailable):
                client.check(*DENIED)
        assert client.check(*ALLOWED)


def test_block_when_nobody_reads_standard_output(tmp_path: Path) -> None:
    """A write that hangs ends in an error, and no call waits for ever."""
    with auditing(tmp_path, "-", records="all") as (server, client):
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
    with auditing(tmp_path, max_size="4KiB", keep=2, fsync="always") as (_, client):
        for number in range(80):
            client.check(f"user-{number}", "root.team")
    names = {path.name for path in tmp_path.glob("audit.log*")}
    assert names == {"audit.log", "audit.log.1", "audit.log.2"}
    assert all((tmp_path / name).stat().st_size <= 4096 for name in names)
    users = [record["user"] for record in log(tmp_path, "audit.log.2", "audit.log.1", "audit.log")]
    assert users == [f"user-{number}" for number in range(80)][-len(users) :]
    assert len(users) > 30


def test_a_file_that_others_rotate(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with auditing(tmp_path) as (_, client):

        def users(name: str = "audit.log") -> list[str]:
            return [record["user"] for record in log(tmp_path, name)]

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


def test_a_folder_that_goes_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with auditing(tmp_path, "logs/audit.log") as (_, client):
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(queuegate.ServerUnavailable):
            client.check(*DENIED)
        folder.mkdir()
        assert not client.check(*DENIED)
    assert len(log(folder)) == 1


def test_files_keep_their_size_after_an_outage(tmp_path: Path) -> None:
    """What has waited may be more than a file holds, and than the disk has room for."""
    folder = tmp_path / "logs"
    folder.mkdir()
    changes = {"when_unwritable": "drop", "max_size": "4KiB", "keep": 20}
    with auditing(tmp_path, "logs/audit.log", **changes) as (server, client):
        folder.rename(tmp_path / "elsewhere")
        for _ in range(60):
            assert not client.check(*DENIED)
        server.wait_for_log("the audit log cannot be written")
        folder.mkdir()
        address = ops_address(server)
        eventually(lambda: value(address, "queuegate_audit_records_total", "written"), 60.0)
    files = list(folder.iterdir())
    assert all(file.stat().st_size <= 4096 for file in files)
    assert sum(len(log(folder, file.name)) for file in files) == 60


def test_start_up_faults(tmp_path: Path) -> None:
    def starts_on(name: str) -> None:
        with running_server("--set", f"audit.path={tmp_path / name}"):
            pass

    with pytest.raises(AssertionError, match=r"audit log .*missing/x: No such file or directory"):
        starts_on("missing/x")
    with auditing(tmp_path, "taken"), pytest.raises(AssertionError, match="another process writes"):
        starts_on("taken")


def test_kill_loses_no_record_of_an_answered_call(tmp_path: Path) -> None:
    answered: list[str] = []
    with auditing(tmp_path, records="all") as (server, client):

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
    recorded = [record["user"] for record in log(tmp_path)]
    assert set(answered) <= set(recorded)
    assert recorded[-1] == "after"
