"""A reload that has been confirmed holds in every worker, also in one that was starting."""

import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.fakes.notify_socket import NotifySocket
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers import held_worker
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.workers import (
    WORKERS,
    channels,
    check,
    pids,
    send,
    wait_for_replacement,
    write_policy,
)


def test_a_worker_that_starts_during_a_reload_has_the_new_roles(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "workers": WORKERS,
        "policy": {"path": str(write_policy(tmp_path))},
        "callers": {"loopback": {"roles": ["check"]}},
    }
    config = settings_file(tmp_path, settings)
    hold = tmp_path / "hold"
    with (
        NotifySocket(f"@queuegate-workers-reload-{os.getpid()}") as manager,
        running_server(
            "--config",
            config,
            program=Path(held_worker.__file__),
            environment={**manager.environment, "HOLD": str(hold)},
        ) as server,
    ):
        manager.wait_for("READY=1")
        hold.touch()
        pid = pids(server)[0]
        send(pid, signal.SIGKILL)
        server.wait_for_log("listening", count=WORKERS + 1)
        settings["callers"] = {"loopback": {"roles": ["read"]}}
        settings_file(tmp_path, settings)
        server.process.send_signal(signal.SIGHUP)
        manager.wait_for("READY=1", count=2)
        with channels(server.address) as opened:
            for channel in opened:
                with pytest.raises(grpc.RpcError) as refused:
                    check(channel, "alice")
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        hold.unlink()
        wait_for_replacement(server, 0, pid)
