"""Spans of a running server, as a collector gets them; and nothing where they are off."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.trace.v1 import trace_pb2

from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.identity.resolver import KnownUser, Outcome
from queuegate_server.observe.tracing import Tracer
from queuegate_server.settings.observability import Tracing
from tests.support.fakes.collector import Collector, attributes
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.http_port import EVALUATION, asked, http_address, send
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server
from tests.support.sync_stream import sync_streams

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "alice staff"
"""
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVICE = "queuegate.v1.AccessService"
CHECK, LOOKUP = f"{SERVICE}/CheckQueueAccess", "resolve groups"
KEPT, NOT_KEPT = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def serving(folder: Path, endpoint: str, **tracing: Any) -> Any:
    (folder / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(folder)
    staff = {"groups": ["staff"]}
    directory.answer({"sue": staff, "tom": staff, "bob": {"failed": "down"}})
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
        "tracing": {"enabled": "true", "endpoint": endpoint, **tracing},
        "http": {"listen": "127.0.0.1:0"},
    }
    config = settings_file(folder, settings)
    return running_server("--config", config, *ADMIN, environment=directory.environment)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Collector]]:
    with (
        Collector() as collector,
        serving(tmp_path_factory.mktemp("shared"), collector.endpoint) as server,
    ):
        yield server, collector


def question(user: str) -> access_pb2.CheckQueueAccessRequest:
    return access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user),
        queue="root.secret-queue",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )


def ask(server: RunningServer, user: str, traceparent: str = "") -> grpc.StatusCode:
    metadata = (("traceparent", traceparent),) if traceparent else ()
    with grpc.insecure_channel(server.address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        try:
            stub.CheckQueueAccess(question(user), timeout=60, metadata=metadata)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_call_and_its_look_up_are_spans_of_the_callers_trace(
    shared: tuple[RunningServer, Collector],
) -> None:
    server, collector = shared
    collector.spans.clear()
    assert ask(server, "sue", KEPT) is grpc.StatusCode.OK
    spans = collector.wait_for(2)
    call, lookup = spans[CHECK], spans[LOOKUP]
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert call.parent_span_id.hex() == PARENT
    assert lookup.parent_span_id == call.span_id
    assert call.kind == trace_pb2.Span.SPAN_KIND_SERVER
    assert attributes(call) == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "CheckQueueAccess",
        "rpc.grpc.status_code": 0,
    }
    assert attributes(lookup) == {"queuegate.resolver": "corp", "queuegate.outcome": "found"}
    assert collector.resource["service.name"] == "queuegate"
    assert collector.resource["service.version"]
    # Nothing of who asked, or what for.
    sent = b"".join(span.SerializeToString() for span in collector.spans)
    for secret in (b"sue", b"staff", b"secret-queue"):
        assert secret not in sent


def test_a_call_over_http_is_a_span_of_the_callers_trace(
    shared: tuple[RunningServer, Collector],
) -> None:
    server, collector = shared
    collector.spans.clear()
    body = asked("tom", "submit", "root.secret-queue")
    assert send(http_address(server), EVALUATION, body, traceparent=KEPT).content["decision"]
    spans = collector.wait_for(2)
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans[CHECK].parent_span_id.hex() == PARENT
    assert spans[LOOKUP].parent_span_id == spans[CHECK].span_id


@pytest.mark.usefixtures("transport")
def test_a_failure_is_an_error_and_a_call_without_a_look_up_has_no_span_of_one(
    collector: Collector, tmp_path: Path
) -> None:
    with serving(tmp_path, collector.endpoint) as server:
        assert ask(server, "bob", "00-not-a-traceparent") is grpc.StatusCode.UNAVAILABLE
        spans = collector.wait_for(2)
        call, lookup = spans[CHECK], spans[LOOKUP]
        assert (call.parent_span_id, call.status.code) == (b"", trace_pb2.Status.STATUS_CODE_ERROR)
        assert attributes(call)["rpc.grpc.status_code"] == 14
        assert attributes(lookup)["queuegate.outcome"] == "could_not_ask"
        collector.spans.clear()
        # A call without a lookup has no span of one, and another trace.
        assert ask(server, "alice") is grpc.StatusCode.OK
        [only] = collector.wait_for(1).values()
        assert only.trace_id != call.trace_id
        collector.spans.clear()
        with sync_streams(server.address) as opening:
            stream = opening()
            stream.open()
            stream.send("want", users=["tom"])
            assert list(stream.until("user_groups").user_groups.groups) == ["staff"]
            stream.send("release")
            assert stream.status() == ("OK", "")
        spans = collector.wait_for(2)
        assert spans[LOOKUP].parent_span_id == spans["queuegate.v1.SyncService/Sync"].span_id


def test_unsampled_traces_are_not_sent_and_the_end_sends_the_rest(
    tmp_path: Path, collector: Collector
) -> None:
    with serving(tmp_path, collector.endpoint, sample_ratio="0") as server:
        assert ask(server, "sue", NOT_KEPT) is grpc.StatusCode.OK
        assert ask(server, "sue") is grpc.StatusCode.OK
        assert ask(server, "alice", KEPT) is grpc.StatusCode.OK
        assert server.stop() == 0
    assert [span.name for span in collector.spans] == [CHECK]


def test_a_collector_that_hangs_holds_nothing_up(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with serving(tmp_path, endpoint) as server:
            assert ask(server, "sue", KEPT) is grpc.StatusCode.OK
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
            assert time.monotonic() - begin < 50


_PROGRAM = """
import atexit, json, pathlib, sys
if {block}:
    sys.modules["opentelemetry"] = None
names = pathlib.Path({file!r})
atexit.register(lambda: names.write_text(json.dumps(sorted(sys.modules))))
from queuegate_server.cli.main import main
main()
"""


def command(file: Path, *arguments: str, block: bool = False) -> list[str]:
    program = _PROGRAM.format(file=str(file), block=block)
    return [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", *arguments]


def test_nothing_is_imported_while_it_is_off(tmp_path: Path) -> None:
    file = tmp_path / "modules"
    process = subprocess.Popen(command(file), stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout
    address = process.stdout.readline().rstrip().rpartition(" on ")[2]
    with grpc.insecure_channel(address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        stub.CheckQueueAccess(question("sue"), timeout=60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    modules = json.loads(file.read_text())
    assert "queuegate_server.observe.tracing" in modules
    assert not [name for name in modules if name.startswith("opentelemetry")]


def test_without_the_extra_it_is_a_fault_of_the_start(tmp_path: Path) -> None:
    outcome = subprocess.run(
        command(tmp_path / "modules", "--set", "tracing.enabled=true", block=True),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "Error: tracing.enabled requires OpenTelemetry, which is not installed:"
        " pip install 'queuegate[tracing]'\n"
    )


async def test_a_traced_resolver_lists_what_the_resolver_lists(collector: Collector) -> None:
    class Directory:
        is_local = True

        async def resolve(self, user: str) -> Outcome:
            return KnownUser((user,))

        async def open(self) -> None:
            pass

        async def close(self) -> None:
            pass

        async def all_users(self, limit: int) -> list[str]:
            return ["sue", "tom"][:limit]

    tracer = Tracer(Tracing(enabled=True, endpoint=collector.endpoint))
    traced: Any = tracer.resolver("corp", Directory())
    assert await traced.all_users(1) == ["sue"]
    assert traced.is_local
    assert not hasattr(traced, "members")
    assert await traced.resolve("sue") == KnownUser(("sue",))
    await tracer.close()
    assert [span.name for span in collector.spans] == [LOOKUP]
