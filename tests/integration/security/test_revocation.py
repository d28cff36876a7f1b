"""Revoked rights end at once, even on an open connection, stream or TLS session."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc.experimental.session_cache import ssl_session_cache_lru

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.files.peer_certificate import peer_certificate
from tests.integration.security.authorities import POLICY, Authority, channel, client, dns, with_tls
from tests.integration.security.test_tokens import CI, line
from tests.support.eventually import eventually
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.gates import live_gate
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.sync_stream import SyncStream

ALICE = "dns:alice.example.org"
CALLERS: dict[str, Any] = {
    "loopback": {"roles": []},
    "certificates": {ALICE: {"roles": ["check", "sync"], "assert_groups": True}},
    "tokens": {"ci": {"roles": ["check", "sync"]}},
}


class Served:
    """A server, and the callers in its settings."""

    def __init__(self, folder: Path, authority: Authority, manager: NotifySocket) -> None:
        self.tokens = folder / "tokens"
        self._manager = manager
        self._config = folder / "queuegate.yaml"
        self._authority = authority
        self._hung_up = 0
        (folder / "queues.yaml").write_text(POLICY)
        self.server: RunningServer

    def configure(self, **changed: Any) -> None:
        callers = {**CALLERS, "token_file": str(self.tokens), **changed}
        self._config.write_text(
            yaml.safe_dump(
                {
                    "listen": [with_tls(self._authority), "127.0.0.1:0"],
                    "policy": {"path": str(self._config.with_name("queues.yaml"))},
                    "callers": callers,
                }
            )
        )

    def start(self) -> Any:
        environment = self._manager.environment
        return running_server("--config", str(self._config), listen=(), environment=environment)

    def send_sighup(self) -> None:
        """Return when the server says that it has read everything again."""
        self._hung_up += 1
        self.server.process.send_signal(signal.SIGHUP)
        self._manager.wait_for("READY=1", count=1 + self._hung_up)


@pytest.fixture
def served(tmp_path: Path, authority: Authority) -> Iterator[Served]:
    with NotifySocket(str(tmp_path / "notify")) as manager:
        made = Served(tmp_path, authority, manager)
        made.tokens.write_text(line("ci", CI))
        made.configure()
        with made.start() as made.server:
            yield made


def test_a_token_that_is_taken_away_ends_its_streams(served: Served) -> None:
    bearer = (("authorization", f"Bearer {CI}"),)
    address = served.server.address.split(", ")[1]
    with channel(address) as asking, closing(SyncStream(asking, bearer)) as stream:
        assert not stream.open().assert_groups
        stream.lease()
        served.tokens.write_text("")
        served.send_sighup()
        with pytest.raises(grpc.RpcError) as caught:
            stream.lease()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_rights_of_a_certificate_change_without_a_restart(
    served: Served, authority: Authority
) -> None:
    shown = authority.client("alice", dns("alice.example.org"))
    address = served.server.address.split(", ")[0]
    with (
        client(address, shown) as calling,
        channel(address, shown) as asking,
        closing(SyncStream(asking)) as first,
    ):
        assert first.open().assert_groups
        with pytest.raises(queuegate.NotPermitted):
            calling.get_policy()

        served.configure(certificates={ALICE: {"roles": ["check", "read", "sync"]}})
        served.send_sighup()
        assert calling.get_policy().revision
        with pytest.raises(grpc.RpcError) as caught:
            first.lease()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        with closing(SyncStream(asking)) as second:
            assert not second.open().assert_groups
            served.configure(certificates={})
            served.send_sighup()
            with pytest.raises(queuegate.NotPermitted):
                calling.check("alice", "root.open")
            with pytest.raises(grpc.RpcError) as caught:
                second.lease()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    changed = served.server.wait_for_log("settings changed", count=2)
    assert all(key.startswith("callers.certificates") for key in changed["keys"])


def test_a_certificate_expires_on_a_connection_too(served: Served, authority: Authority) -> None:
    """Also on an open stream, and on one that resumes a TLS session, which shows no certificate
    anew.
    """
    address = served.server.address.split(", ")[0]
    longer = authority.client("longer", dns("alice.example.org"), seconds=8)
    sessions = ssl_session_cache_lru(1)  # type: ignore[no-untyped-call] # as it comes
    with closing(resuming_channel(address, longer, sessions)) as first:
        assert status(first) is grpc.StatusCode.OK
    brief = authority.client("brief", dns("alice.example.org"), seconds=8)
    with closing(channel(address, brief)) as first, closing(SyncStream(first)) as stream:
        stream.open()
        assert status(first) is grpc.StatusCode.OK
        eventually(lambda: status(first), grpc.StatusCode.UNAUTHENTICATED)
        with pytest.raises(grpc.RpcError) as caught:
            stream.lease()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    eventually(lambda: expired(longer), True)
    with closing(resuming_channel(address, longer, sessions)) as second:
        # The second is what a handshake without a session ends with.
        assert status(second) in {
            grpc.StatusCode.UNAUTHENTICATED,
            grpc.StatusCode.UNAVAILABLE,
        }


def resuming_channel(address: str, shown: queuegate.Tls, sessions: Any) -> grpc.Channel:
    return channel(address, shown, (("grpc.ssl_session_cache", sessions),))


def status(asking: grpc.Channel) -> grpc.StatusCode:
    """Return how a check ends."""
    check = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice"),
        queue="root.open",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    try:
        access_pb2_grpc.AccessServiceStub(asking).CheckQueueAccess(check, timeout=60)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def expired(shown: queuegate.Tls) -> bool:
    assert shown.certificate_file is not None
    return peer_certificate(Path(shown.certificate_file).read_bytes()).not_after < time.time()


def test_a_gate_whose_certificate_expires_decides_no_more(
    served: Served, authority: Authority
) -> None:
    served.configure(certificates={ALICE: {"roles": ["check", "sync"]}})
    served.send_sighup()
    address = served.server.address.split(", ")[0]
    brief = authority.client("brief", dns("alice.example.org"), seconds=12)
    with live_gate(address, tls=brief, stale=600) as gate:
        assert gate.check("alice", "root.open")
        eventually(lambda: gate.state, queuegate.GateState.CONNECTING)
        assert expired(brief)
        decided = gate.decided
        # The server refuses the call, or a new connection.
        with pytest.raises((queuegate.NotPermitted, queuegate.ServerUnavailable)):
            gate.check("alice", "root.open")
        assert gate.decided == decided
