"""A server without a policy: reading it hangs until the test releases it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.blocking_pipes import blocking_server_command
from tests.support.servers.queuegate_server import ADMIN

SERVICES = ["AccessService", "UserGroupService", "PolicyService"]
POLICY = "partitions: [{name: default, queues: [{name: root, submitacl: alice}]}]\n"


@contextmanager
def waiting_for_its_policy(folder: Path) -> Iterator[tuple[str, Callable[[str], None]]]:
    """Start a server whose policy is a pipe, which it reads until the test writes a policy."""
    path = folder / "queues.yaml"
    os.mkfifo(path)
    address = f"unix:{folder}/q.sock"
    process = subprocess.Popen(
        blocking_server_command("serve", "--policy", str(path), "--listen", address, *ADMIN),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def give(text: str) -> None:
        # From here on it is a regular file, also if it is looked at again.
        file = folder / "file"
        file.write_text(text)
        pipe = os.open(path, os.O_WRONLY)
        file.replace(path)
        os.write(pipe, text.encode())
        os.close(pipe)

    try:
        eventually((folder / "q.sock").exists, expected=True)
        yield address, give
    finally:
        process.kill()
        process.communicate()


def test_before_the_first_policy(tmp_path: Path) -> None:
    """Calls fail without a decision, and health reports NOT_SERVING."""
    no_retry = queuegate.Retry(attempts=1)
    with (
        waiting_for_its_policy(tmp_path) as (address, give),
        queuegate.Client(address, timeout=60, retry=no_retry) as client,
        grpc.insecure_channel(address) as channel,
    ):
        names = ["", *(f"queuegate.v1.{service}" for service in SERVICES)]
        grpc.channel_ready_future(channel).result(60)
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert [client.check_health(name) for name in names] == ["not_serving"] * 4
        for ask in (
            lambda: client.check("alice", "root"),
            lambda: client.check_many([queuegate.Check("alice", "root")]),
            lambda: client.explain("alice", "root"),
            lambda: client.list_queues("alice"),
            lambda: client.resolve("alice"),
            client.invalidate,
            client.get_policy,
        ):
            with pytest.raises(queuegate.ServerUnavailable) as caught:
                ask()
            assert (caught.value.code, caught.value.reason) == ("UNAVAILABLE", "NOT_READY")
            assert caught.value.retry_after == 1
        assert client.validate(POLICY).valid
        give(POLICY)
        assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
        assert [client.check_health(name) for name in names] == ["serving"] * 4
        assert client.check("alice", "root").policy_revision == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_while_it_starts(tmp_path: Path, number: signal.Signals) -> None:
    """A pod that is deleted while it starts does not wait for its policy."""
    path = tmp_path / "queues.yaml"
    os.mkfifo(path)
    process = subprocess.Popen(
        blocking_server_command(
            "serve", "--policy", str(path), "--listen", f"unix:{tmp_path}/q.sock"
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually((tmp_path / "q.sock").exists, expected=True)
        with (
            grpc.insecure_channel(f"unix:{tmp_path}/q.sock") as channel,
            queuegate.Client(f"unix:{tmp_path}/q.sock", timeout=60) as client,
        ):
            grpc.channel_ready_future(channel).result(60)
            assert client.check_health() == "not_serving"
        process.send_signal(number)
        assert process.wait(60) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors
