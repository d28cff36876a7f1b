"""Which transport serves, its log entry, and settings that the native one refuses."""

import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command


@pytest.mark.parametrize(
    ("wanted", "served", "why"), [("auto", "native", ""), ("grpcio", "grpcio", "not requested")]
)
def test_the_log_says_which_transport_serves(wanted: str, served: str, why: str) -> None:
    with (
        running_server("--set", f"transport={wanted}") as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        assert client.check_health() == "serving"
        entry = server.wait_for_log("transport")
        assert (entry["transport"], entry["not_native"]) == (served, why)


def test_settings_that_native_does_not_support_are_refused(tmp_path: Path) -> None:
    ended = subprocess.run(
        server_command("serve", "--listen", f"unix:{tmp_path}/a.sock", "--set", "transport=native"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "transport native does not support Unix sockets; use transport: grpcio" in ended.stderr


def test_workers_share_the_port() -> None:
    settings = ("--set", "transport=native", "--set", "workers=2")
    with running_server(*settings) as server:
        for _ in range(6):
            with queuegate.Client(server.address, timeout=60) as client:
                assert client.get_policy().revision == 1
        kinds = {entry["worker"]: entry["transport"] for entry in transports(server)}
    assert kinds == {0: "native", 1: "native"}


def transports(server: RunningServer) -> list[dict[str, Any]]:
    server.wait_for_log("transport", count=2)
    return [entry for entry in server.logs if entry["event"] == "transport"]


def test_native_takes_no_port_that_is_taken_and_no_message_that_is_too_large() -> None:
    settings = ("--set", "transport=native", "--set", "limits.max_message=64KiB")
    with running_server(*settings) as server:
        ended = subprocess.run(
            server_command("serve", "--listen", server.address, "--set", "transport=native"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 2
        assert "Address already in use" in ended.stderr
        with grpc.insecure_channel(server.address) as channel:
            stub = access_pb2_grpc.AccessServiceStub(channel)
            request = access_pb2.CheckQueueAccessRequest(queue="q" * 100_000)
            with pytest.raises(grpc.RpcError) as caught:
                stub.CheckQueueAccess(request, timeout=60)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in (caught.value.details() or "")
