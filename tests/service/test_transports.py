"""Which transport serves, what the native one refuses, and that it says so."""

import subprocess
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.running import running_server, server_command


@pytest.mark.parametrize(
    ("wanted", "listen", "serves", "why"),
    [
        ("native", "127.0.0.1:0", "native", ""),
        ("auto", "127.0.0.1:0", "native", ""),
        ("auto", "[::1]:0", "native", ""),
        ("auto", "0.0.0.0:0", "grpcio", "'0.0.0.0:0': transport auto keeps to grpcio"),
        ("auto", "unix:{folder}/a.sock", "grpcio", "has no Unix sockets"),
        ("auto", "127.0.0.1:0,127.0.0.1:0", "grpcio", "serves one address only"),
        ("grpcio", "127.0.0.1:0", "grpcio", "not asked for"),
    ],
)
def test_the_log_says_which_transport_serves(
    tmp_path: Path, wanted: str, listen: str, serves: str, why: str
) -> None:
    addresses = listen.format(folder=tmp_path).split(",")
    with (
        running_server("--set", f"transport={wanted}", listen=addresses) as server,
        queuegate.Client(server.address.partition(", ")[0], timeout=10) as client,
    ):
        assert client.health() == "serving"
        entry = server.wait_for_log("transport")
        assert entry["transport"] == serves
        assert why in entry["not_native"]


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        (["unix:{folder}/a.sock"], "transport native has no Unix sockets; use grpcio"),
        (["127.0.0.1:0", "[::1]:0"], "'[::1]:0': transport native serves one address only"),
    ],
)
def test_what_native_cannot_do_is_refused(tmp_path: Path, listen: list[str], reason: str) -> None:
    arguments = [part for one in listen for part in ("--listen", one.format(folder=tmp_path))]
    ended = subprocess.run(
        server_command("serve", *arguments, "--set", "transport=native"),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert reason in ended.stderr


def test_native_takes_no_port_that_is_taken_and_no_message_that_is_too_large() -> None:
    settings = ("--set", "transport=native", "--set", "limits.max_message=64KiB")
    with running_server(*settings) as server:
        ended = subprocess.run(
            server_command("serve", "--listen", server.address, "--set", "transport=native"),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ended.returncode == 2
        assert "Address already in use" in ended.stderr
        with grpc.insecure_channel(server.address) as channel:
            stub = access_pb2_grpc.AccessServiceStub(channel)
            request = access_pb2.CheckQueueAccessRequest(queue="q" * 100_000)
            with pytest.raises(grpc.RpcError) as caught:
                stub.CheckQueueAccess(request, timeout=10)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in (caught.value.details() or "")
