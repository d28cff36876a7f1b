"""Several workers are one service: one policy, one port, and invalidation in all caches."""

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import policy_pb2, policy_pb2_grpc
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import RunningServer, server_command
from tests.support.servers.workers import (
    POLICY,
    WORKERS,
    channels,
    check,
    failing_start,
    is_alive,
    pids,
    revision,
    send,
    several_workers,
    wait_for_replacement,
    write_policy,
)


@dataclass
class Service:
    """The workers that all tests of this file share."""

    server: RunningServer
    client: queuegate.Client
    folder: Path
    directory: ScriptedDirectory

    @property
    def path(self) -> Path:
        return self.folder / "queues.yaml"

    def reload(self, user: str) -> int:
        """Let another user submit; return the revision."""
        write_policy(self.folder, user)
        result = self.client.reload()
        assert result
        return result.revision


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("workers")
    directory = ScriptedDirectory(folder)
    settings = {
        "policy": {"path": str(write_policy(folder))},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
    }
    config = settings_file(folder, settings)
    with (
        several_workers("--config", config, environment=directory.environment) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        yield Service(server, client, folder, directory)


def test_a_reload_reaches_all_workers(service: Service) -> None:
    before = service.reload("alice")
    with channels(service.server.address) as opened:
        assert [check(channel, "bob").allowed for channel in opened] == [False] * len(opened)
        assert service.reload("bob") == before + 1
        assert [check(channel, "bob").allowed for channel in opened] == [True] * len(opened)
        assert {revision(channel) for channel in opened} == {before + 1}
        service.path.write_text(POLICY.replace("alice staff", "a b c"))
        assert not service.client.reload()
        assert {revision(channel) for channel in opened} == {before + 1}
    service.reload("alice")


def test_the_revision_is_the_same_in_a_worker_that_came_later(service: Service) -> None:
    for user in ("bob", "carol", "alice"):
        last = service.reload(user)
    before = pids(service.server)[0]
    send(before, signal.SIGKILL)
    wait_for_replacement(service.server, 0, before)
    with channels(service.server.address) as opened:
        assert {revision(channel) for channel in opened} == {last}


def test_invalidation_reaches_all_workers(service: Service) -> None:
    service.directory.answer({"sue": {"groups": []}})
    with channels(service.server.address) as opened:
        assert [check(channel, "sue").allowed for channel in opened] == [False] * len(opened)
        assert service.directory.asked("sue") == WORKERS
        service.directory.answer({"sue": {"groups": ["staff"]}})
        assert service.client.invalidate(["sue"]).dropped == WORKERS
        assert [check(channel, "sue").allowed for channel in opened] == [True] * len(opened)


def test_a_reload_of_a_worker_that_starts_waits_for_it(service: Service) -> None:
    last = service.reload("alice")
    before = pids(service.server)[0]
    send(before, signal.SIGKILL)
    eventually(lambda: is_alive(before), expected=False)
    write_policy(service.folder, "bob")
    with grpc.insecure_channel(service.server.address) as channel:
        stub = policy_pb2_grpc.PolicyServiceStub(channel)
        answer = stub.ReloadPolicy(
            policy_pb2.ReloadPolicyRequest(), timeout=60, wait_for_ready=True
        )
        assert (answer.succeeded, answer.revision) == (True, last + 1)
    wait_for_replacement(service.server, 0, before)
    with channels(service.server.address) as opened:
        assert {revision(channel) for channel in opened} == {last + 1}


def test_another_server_cannot_share_the_port(service: Service) -> None:
    status, _, stderr = failing_start("--listen", service.server.address)
    assert (status, "in use" in stderr) == (2, True)
    alone = subprocess.run(
        server_command("serve", "--listen", service.server.address),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (alone.returncode, "in use" in alone.stderr) == (2, True)
