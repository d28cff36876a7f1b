"""Several servers that are replicas of one fleet, on a real Redis and a scripted directory."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

import queuegate
from queuegate.v1 import policy_pb2, policy_pb2_grpc
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server
from tests.support.servers.redis_server import RedisServer, running_redis
from tests.support.servers.two_partitions import POLICY, client_without_retries
from tests.support.servers.workers import channels

SECRET = "5" * 64
STAFF: Mapping[str, Any] = {"groups": ["staff"]}
OTHERS: Mapping[str, Any] = {"groups": ["others"]}


class Fleet:
    """A Redis, a directory and the servers that use them."""

    def __init__(
        self,
        folder: Path,
        redis: RedisServer,
        directory: ScriptedDirectory,
        policy: str = POLICY,
    ) -> None:
        self.redis = redis
        self.directory = directory
        self.folder = folder
        self._policy = policy
        self.servers: dict[str, RunningServer] = {}
        self.clients: dict[str, queuegate.Client] = {}
        self._stack = ExitStack()
        secret = folder / "fleet-secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)

    def settings(self, name: str, **fleet: Any) -> dict[str, Any]:
        policy = self.folder / f"{name}.queues.yaml"
        policy.write_text(self._policy)
        return {
            "policy": {"path": str(policy)},
            "resolvers": {"corp": self.directory.resolver()},
            "partitions": {"default": {"resolver": "corp"}, "other": {"resolver": "corp"}},
            "fleet": {
                "url": self.redis.url,
                "secret_file": str(self.folder / "fleet-secret"),
                "replica": name,
                **fleet,
            },
        }

    def start(
        self,
        name: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        follows: bool = True,
        **fleet: Any,
    ) -> RunningServer:
        """Start a replica, optionally with additional environment variables.

        Wait until it follows the fleet, unless it cannot.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        config = settings_file(folder, self.settings(name, **fleet))
        server = self._stack.enter_context(
            running_server(
                *("--config", config, *ADMIN, *arguments),
                environment={**self.directory.environment, **(environment or {})},
            )
        )
        self.servers[name] = server
        self.clients[name] = self._stack.enter_context(client_without_retries(server))
        if follows:
            server.wait_for_log("following the fleet")
        return server

    def policy(self, name: str) -> Path:
        """Return the policy file of a replica."""
        return self.folder / f"{name}.queues.yaml"

    def may(self, name: str, user: str = "sam") -> bool:
        """Ask a replica whether a user may submit to the queue of `staff`."""
        return self.clients[name].check(user, "root.work").allowed

    def confirms(self, name: str) -> bool:
        """Return whether all replicas confirm an invalidation at one of them."""
        try:
            return not self.clients[name].invalidate(wait=True).waited_out
        except queuegate.ServerUnavailable:
            return False

    def until_barriers_are_quick(self) -> None:
        """Wait until no lease of an earlier process is left, so that barriers are quick."""
        for name in self.clients:
            eventually(partial(self.confirms, name), True)

    def until_agreed(self) -> None:
        """Wait until each replica has seen that all follow the fleet."""

        def agreed() -> set[tuple[bool, int]]:
            shown = [client.get_fleet() for client in self.clients.values()]
            return {(each.agreed, len(each.replicas)) for each in shown}

        eventually(agreed, {(True, len(self.clients))})

    def close(self) -> None:
        self._stack.close()


@contextmanager
def running_fleet(
    folder: Path,
    *names: str,
    arguments: tuple[str, ...] = (),
    policy: str = POLICY,
    resolver: str = "scripted",
    **options: Any,
) -> Iterator[Fleet]:
    """Run a Redis and the named replicas, with these fleet options."""
    with running_redis(folder / "redis") as redis:
        fleet = Fleet(folder, redis, ScriptedDirectory(folder), policy)
        fleet.directory.type = resolver
        try:
            for name in names:
                fleet.start(name, *arguments, **options)
            yield fleet
        finally:
            fleet.close()


@contextmanager
def each_worker(server: RunningServer, count: int) -> Iterator[dict[str, grpc.Channel]]:
    """Open connections until each worker of a server has one. Return them by fleet name."""
    by_name: dict[str, grpc.Channel] = {}
    with ExitStack() as stack:
        for _ in range(50):
            for channel in stack.enter_context(channels(server.address)):
                by_name.setdefault(own_name(channel), channel)
                if len(by_name) == count:
                    yield by_name
                    return
    raise AssertionError(f"no connection reached more than {sorted(by_name)}")


def shown(channel: grpc.Channel) -> policy_pb2.GetFleetResponse:
    """Return the fleet as shown by the worker or server behind a connection."""
    request = policy_pb2.GetFleetRequest()
    response: policy_pb2.GetFleetResponse = policy_pb2_grpc.PolicyServiceStub(channel).GetFleet(
        request, timeout=60, wait_for_ready=True
    )
    return response


def own_name(channel: grpc.Channel) -> str:
    [name] = [each.name for each in shown(channel).replicas if each.self]
    return name
