"""Log entries of a running server about calls, and how callers find those of theirs."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.observe.log_sampling import MAX_LINES
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "alice staff"
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
METHOD = "queuegate.v1.AccessService.CheckQueueAccess"
FORGED = 'x\n{"event": "forged", "level": "error"}\r\x1b[2J\u2028'


@pytest.fixture
def directory(tmp_path: Path) -> ScriptedDirectory:
    (tmp_path / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(tmp_path)
    directory.answer({"*": {"failed": "down"}})
    return directory


def serving(directory: ScriptedDirectory, **settings: Any) -> Any:
    whole = {
        "policy": {"path": str(directory.folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp", "cache": {"failure_ttl": "1ms"}}},
        **settings,
    }
    config = settings_file(directory.folder, whole)
    # A call that a busy transport sheds is not logged.
    directory.constants |= with_constants.NO_OVERLOAD
    return running_server("--config", config, environment=directory.environment)


@pytest.fixture
def server(directory: ScriptedDirectory) -> Iterator[RunningServer]:
    with serving(directory) as server:
        yield server


def ask(
    address: str, user: str, metadata: Sequence[tuple[str, str]] = (), queue: str = "root.x"
) -> Any:
    """Return the error of a call, or its answer."""
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user), queue=queue, access=access_pb2.ACCESS_TYPE_SUBMIT
    )
    with grpc.insecure_channel(address) as channel:
        try:
            return access_pb2_grpc.AccessServiceStub(channel).CheckQueueAccess(
                request, timeout=60, metadata=tuple(metadata), wait_for_ready=True
            )
        except grpc.RpcError as error:
            return error


def returned_id(error: Any) -> str:
    return str(dict(error.trailing_metadata())["x-request-id"])


@pytest.mark.usefixtures("transport")
def test_a_failure_is_one_line_with_the_callers_ids(server: RunningServer) -> None:
    given = [("x-request-id", "job-17/3"), ("traceparent", f"00-{TRACE}-{'a' * 16}-01")]
    error = ask(server.address, "bob", given)
    assert returned_id(error) == "job-17/3"
    entry = server.wait_for_log("call failed")
    assert {key: entry[key] for key in ("method", "code", "reason", "level", "request_id")} == {
        "method": METHOD,
        "code": "UNAVAILABLE",
        "reason": "RESOLVER_UNAVAILABLE",
        "level": "warning",
        "request_id": "job-17/3",
    }
    assert (entry["trace_id"], entry["parent_id"]) == (TRACE, "a" * 16)
    assert entry["message_to_caller"] == error.details()


@pytest.mark.parametrize("given", [[], [("x-request-id", "not a sane id; {}")]])
def test_a_missing_or_malformed_id_is_replaced(
    server: RunningServer, given: list[tuple[str, str]]
) -> None:
    made = returned_id(ask(server.address, "bob", given))
    assert len(made) == 16
    assert server.wait_for_log("call failed")["request_id"] == made


def test_a_wrong_request_is_not_logged_but_has_its_id(server: RunningServer) -> None:
    error = ask(server.address, "alice", [("x-request-id", "wrong-1")], queue="")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert returned_id(error) == "wrong-1"
    assert ask(server.address, "alice").allowed
    ask(server.address, "bob")
    server.wait_for_log("call failed")
    assert METHOD in {entry.get("method") for entry in server.logs}
    assert "wrong-1" not in {entry.get("request_id") for entry in server.logs}
    assert not [entry for entry in server.logs if entry["event"] == "call"]


@pytest.mark.usefixtures("transport")
def test_every_call_is_a_line_at_debug(directory: ScriptedDirectory) -> None:
    with serving(directory, log={"level": "debug"}) as server:
        assert ask(server.address, "alice", [("x-request-id", "right-1")]).allowed
        entry = server.wait_for_log("call")
        assert (entry["method"], entry["code"], entry["level"]) == (METHOD, "OK", "debug")
        assert entry["request_id"] == "right-1"
        assert entry["seconds"] > 0
        assert ask(server.address, "alice", queue="").code() is grpc.StatusCode.INVALID_ARGUMENT
        entry = server.wait_for_log("call", count=2)
        assert (entry["code"], entry["reason"]) == ("INVALID_ARGUMENT", "INVALID_FIELD")
        # gRPC adds a detail of its own to each call.
        assert not [line for line in server.logs if line["logger"].startswith("grpc.")]


def test_an_outage_does_not_flood_the_log(server: RunningServer) -> None:
    """Thousands of calls fail in the same way: a few lines a second, and how many more."""
    calls, begin = 900, time.monotonic()  # fewer than gRPC refuses by itself
    with grpc.insecure_channel(server.address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        pending = [
            stub.CheckQueueAccess.future(
                access_pb2.CheckQueueAccessRequest(
                    user=UserGroupInformation(user=f"user-{number}"),
                    queue="root.x",
                    access=access_pb2.ACCESS_TYPE_SUBMIT,
                ),
                timeout=60,
            )
            for number in range(calls)
        ]
        codes = [call.code() for call in pending]
    assert grpc.StatusCode.OK not in codes

    def logged_calls() -> int:
        """Count the calls that failed by what the log says."""
        lines = [entry for entry in server.logs if entry.get("method") == METHOD]
        written = len([entry for entry in lines if entry["event"] == "call failed"])
        suppressed = [int(entry.get("suppressed", 0)) for entry in lines]
        return written + sum(suppressed)

    eventually(logged_calls, calls)
    seconds = time.monotonic() - begin + 1
    written = [entry for entry in server.logs if entry["level"] == "warning"]
    # Calls and lookups: unavailable, overloaded, could not be asked.
    assert len(written) <= 3 * (MAX_LINES + 1) * (seconds + 1)


def test_nothing_of_a_request_forges_a_line(directory: ScriptedDirectory) -> None:
    directory.answer({"*": {"failed": FORGED}})
    with serving(directory, log={"level": "debug"}) as server:
        for user in (FORGED, "bob", '"}', "a" * 200):
            ask(server.address, user, [("x-request-id", '{"a":1}'), ("user-agent", "x")])
        queues = directory.folder / "queues.yaml"
        replace(queues, POLICY + "      - name: " + json.dumps(FORGED) + "\n")
        server.wait_for_log("policy is not valid; the last good one stays in use")
        raw = [line.rstrip("\n") for line in list(server._errors)]
    assert all(json.loads(line)["event"] != "forged" for line in raw)
    assert "down" not in raw
    assert all(line.isascii() for line in raw)


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    """Standard error is a pipe, as to a collector of logs, and full after some 270 calls."""
    with subprocess.Popen(
        server_command("serve", "--listen", "127.0.0.1:0", "--set", "log.level=debug"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        address = process.stdout.readline().rstrip().rpartition(" on ")[2]
        with queuegate.Client(address, timeout=60) as client:
            answers = [client.check("bob", f"root.n{number}") for number in range(800)]
            assert len(answers) == 800
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in process.stderr if line.startswith("{")]
        assert process.wait(60) == 0
    assert len(lines) < 800
