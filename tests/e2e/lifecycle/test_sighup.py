"""SIGHUP: settings change or are reported to need a restart; invalid files change nothing."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2, access_pb2_grpc
from tests.integration.security.test_tokens import CI, line
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.admin_port import get, ops_address
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.workers import check, pids, send, wait_for_replacement, write_policy

ALONE = pytest.mark.parametrize("workers", [1])
SEVERAL = pytest.mark.parametrize("workers", [2])
BOTH = pytest.mark.parametrize("workers", [1, 2])


class Configured:
    """A server, and the file of its settings."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.directory = ScriptedDirectory(folder)
        self.directory.answer({"*": {"groups": ["staff"]}})
        self.settings: dict[str, Any] = {
            "policy": {"path": str(write_policy(folder))},
            "resolvers": {"corp": self.directory.resolver()},
            "partitions": {"default": {"resolver": "corp"}},
            "workers": workers,
        }
        self.workers = workers
        self.config: Path

    def running(self) -> Any:
        self.config = Path(settings_file(self.folder, self.settings))
        return running_server("--config", str(self.config), environment=self.directory.environment)

    def send_sighup(self, server: RunningServer, **settings: Any) -> None:
        settings_file(self.folder, {**self.settings, **settings})
        server.process.send_signal(signal.SIGHUP)


@pytest.fixture
def configured(tmp_path: Path, workers: int) -> Configured:
    return Configured(tmp_path, workers)


def count(server: RunningServer, event: str) -> int:
    return len([entry for entry in server.logs if entry["event"] == event])


@BOTH
def test_the_log_level_changes(configured: Configured) -> None:
    with configured.running() as server, grpc.insecure_channel(server.address) as channel:
        assert check(channel, "alice").allowed
        configured.send_sighup(server, log={"level": "debug"})
        changed = server.wait_for_log("settings changed", count=configured.workers)
        assert changed["keys"] == ["log.level"]

        def is_logged() -> bool:
            check(channel, "alice")
            return count(server, "call") > 0

        eventually(is_logged, expected=True)
        assert not [entry for entry in server.logs if "restart" in entry["event"]]


@BOTH
def test_the_last_of_many_signals_counts(configured: Configured) -> None:
    with configured.running() as server, grpc.insecure_channel(server.address) as channel:
        for _ in range(300):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.0005)
        configured.send_sighup(server, log={"level": "debug"})
        server.wait_for_log("settings changed", count=configured.workers)
        assert check(channel, "alice").allowed
        assert not [entry for entry in server.logs if "confirm" in entry["event"]]


@BOTH
def test_settings_that_hang_block_nothing(configured: Configured) -> None:
    configured.settings["ops"] = {"listen": "127.0.0.1:0"}
    with configured.running() as server:
        configured.config.unlink()
        os.mkfifo(configured.config)
        server.process.send_signal(signal.SIGHUP)
        # Open once the server reads from it, and waits for more.
        with configured.config.open("w"), grpc.insecure_channel(server.address) as channel:
            assert check(channel, "alice").allowed
            assert get(ops_address(server), "/livez")[0] == 200
            assert server.stop() == 0


@ALONE
def test_bounds_and_lifetimes_change(configured: Configured) -> None:
    cache = {"positive_ttl": "1ms", "max_stale": "0s"}
    configured.settings["limits"] = {"max_concurrent_calls": 100}
    with configured.running() as server, grpc.insecure_channel(server.address) as channel:
        check(channel, "sue")
        check(channel, "sue")
        assert configured.directory.asked("sue") == 1
        configured.send_sighup(
            server,
            limits={"max_concurrent_calls": 50},
            partitions={"default": {"resolver": "corp", "cache": cache}},
            drain={"grace": "3s"},
        )
        changed = server.wait_for_log("settings changed", count=configured.workers)
        assert changed["keys"] == [
            "drain.grace",
            "limits.max_concurrent_calls",
            "partitions.default.cache.max_stale",
            "partitions.default.cache.positive_ttl",
        ]
        for user in ("bob", "carol"):
            check(channel, user)

            def asked_again(user: str = user) -> bool:
                check(channel, user)
                return configured.directory.asked(user) > 1

            eventually(asked_again, expected=True)
        assert server.stop() == 0
        draining = server.wait_for_log("draining")
        assert draining["grace_seconds"] == 3


@SEVERAL
def test_a_worker_that_starts_later_has_the_settings_of_the_others(configured: Configured) -> None:
    """Not those that wait for a restart, and those that have changed since the start: who was
    taken out of the callers is not let in by a new worker, whatever the file says by then.
    """
    tokens = configured.folder / "tokens"
    tokens.write_text(line("ci", CI))
    known = {"loopback": {"roles": []}, "token_file": str(tokens)}
    configured.settings["callers"] = {**known, "tokens": {"ci": {"roles": "check,read"}}}

    def refused(address: str) -> bool:
        request = access_pb2.CheckQueueAccessRequest()
        bearer = (("authorization", f"Bearer {CI}"),)
        with grpc.insecure_channel(address) as channel:
            stub = access_pb2_grpc.AccessServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.CheckQueueAccess(request, metadata=bearer, timeout=60)
        return caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

    with configured.running() as server:
        assert not refused(server.address)
        configured.send_sighup(
            server,
            limits={"max_message": "64KiB"},
            workers=3,
            log={"level": "debug"},
            callers=known,
        )
        server.wait_for_log("settings changed", count=2)
        event = "changed settings require a restart"
        server.wait_for_log(event, count=2)
        before = pids(server)[1]
        send(before, signal.SIGKILL)
        wait_for_replacement(server, 1, before)
        logged = server.wait_for_log(event, count=3)
        assert logged["worker"] == 1
        assert logged["keys"] == ["limits.max_message", "workers"]
        configured.config.write_text("garbage")
        before = pids(server)[1]
        send(before, signal.SIGKILL)
        wait_for_replacement(server, 1, before)
        server.wait_for_log("settings are not valid; the old ones stay in use")
        assert all(refused(server.address) for _ in range(20))


@ALONE
def test_a_role_of_local_callers_is_revoked(configured: Configured) -> None:
    with configured.running() as server, queuegate.Client(server.address, timeout=60) as client:
        assert client.check("alice", "root.a")
        configured.send_sighup(server, callers={"loopback": {"roles": ["read"]}})
        server.wait_for_log("settings changed")
        with pytest.raises(queuegate.NotPermitted):
            client.check("alice", "root.a")
        with pytest.raises(queuegate.NotPermitted):
            client.check_many([queuegate.Check("bob", "root.a")])
        assert client.explain("alice", "root.a")


@ALONE
def test_keys_that_need_a_restart_are_logged_without_values(configured: Configured) -> None:
    with configured.running() as server:
        secret = {"corp": configured.directory.resolver(lookup_timeout="7s")}
        configured.send_sighup(
            server,
            resolvers=secret,
            workers=5,
            limits={"max_concurrent_calls": 2000, "max_message": "1MiB"},
        )
        event = "changed settings require a restart"
        logged = server.wait_for_log(event, count=configured.workers)
        assert set(logged["keys"]) >= {
            "limits.max_concurrent_calls",
            "limits.max_message",
            "workers",
        }
        assert any(key.startswith("resolvers.corp") for key in logged["keys"])
        assert "7" not in json.dumps(logged["keys"])


@BOTH
def test_invalid_settings_change_nothing_but_the_policy_is_reloaded(configured: Configured) -> None:
    with (
        configured.running() as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        write_policy(configured.folder, "bob")
        configured.send_sighup(server, log={"level": "loud"}, drain={"graze": "1s"})
        server.wait_for_log(
            "settings are not valid; the old ones stay in use", count=configured.workers
        )
        diagnostics = [entry["diagnostic"] for entry in server.logs if "diagnostic" in entry]
        for key in ("log.level", "drain.graze"):
            assert any(key in diagnostic for diagnostic in diagnostics)
        eventually(lambda: client.get_policy().revision, 2)
        assert client.check("bob", "root.x")
