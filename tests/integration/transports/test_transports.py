"""Which transport serves, its log entry, and settings that the native one refuses."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command

CERTIFICATES: Final = Path(__file__).parents[2] / "contract" / "tls"
TLS: Final = {
    "certificate_file": f"{CERTIFICATES}/server.pem",
    "key_file": f"{CERTIFICATES}/server.key",
}
TCP: Final = {"address": "127.0.0.1:0"}
LISTENERS: Final[dict[str, tuple[str, list[dict[str, Any]], str, str]]] = {
    "the default": ("", [TCP], "grpcio", "not requested"),
    "grpcio": ("grpcio", [TCP], "grpcio", "not requested"),
    "native": ("native", [TCP], "native", ""),
    "auto": ("auto", [TCP], "native", ""),
    "auto with TLS": (
        "auto",
        [{**TCP, "tls": TLS}],
        "grpcio",
        "'127.0.0.1:0': transport native does not support TLS",
    ),
    "auto with a second address": (
        "auto",
        [TCP, {"address": "127.0.0.2:0"}],
        "grpcio",
        "'127.0.0.2:0': transport native serves only one address",
    ),
    "auto on all addresses": (
        "auto",
        [{"address": "0.0.0.0:0", "insecure": True}],
        "grpcio",
        "'0.0.0.0:0': transport native serves only loopback addresses",
    ),
    "auto on a Unix socket": (
        "auto",
        [{"address": "unix:{folder}/q.sock"}],
        "grpcio",
        "'unix:{folder}/q.sock': transport native does not support Unix sockets",
    ),
}
"""The setting, the listeners, and the transport and the reason in the log."""


@pytest.mark.parametrize(
    ("wanted", "listeners", "served", "why"), LISTENERS.values(), ids=LISTENERS
)
def test_the_log_says_which_transport_serves_and_why(
    wanted: str, listeners: list[dict[str, Any]], served: str, why: str, tmp_path: Path
) -> None:
    settings = {"listen": listeners} | ({"transport": wanted} if wanted else {})
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps(settings).replace("{folder}", str(tmp_path)))
    with running_server("--config", str(file), listen=()) as server:
        entry = server.wait_for_log("transport")
        assert entry["transport"] == served
        assert entry["not_native"] == why.replace("{folder}", str(tmp_path))


def test_auto_asks_over_the_transport_that_serves() -> None:
    with (
        running_server("--set", "transport=auto") as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        assert client.check_health() == "serving"
        assert server.wait_for_log("transport")["transport"] == "native"


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
