"""A server with two equal partitions that share a scripted directory of users."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import queuegate
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

POLICY = """\
partitions:
  - name: default
    queues: &queues
      - name: root
        adminacl: boss
        queues:
          - name: open
            submitacl: "*"
          - name: work
            submitacl: "alice staff"
  - name: other
    queues: *queues
"""
DOWN: dict[str, Any] = {"failed": "the directory is down"}
PEOPLE: dict[str, dict[str, Any]] = {
    "sam": {"groups": ["sam", "staff"]},
    "eve": {"groups": ["eve"]},
    "dora": DOWN,
}
"""A member of `staff`, another user, and a user whose lookups fail."""


class SharedServer(NamedTuple):
    """The directory and server shared by the tests in a file. Each test resets them."""

    directory: ScriptedDirectory
    server: RunningServer


@contextmanager
def two_partitions(
    directory: ScriptedDirectory,
    *,
    partition: dict[str, Any] | None = None,
    cache: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[RunningServer]:
    """Run the server. `partition` and `cache` are settings of `default`; `options` belong to the
    resolver.
    """
    path = directory.folder / "queues.yaml"
    path.write_text(POLICY)
    default = {"resolver": "corp", "cache": cache or {}, **(partition or {})}
    settings = {
        "policy": {"path": str(path)},
        "resolvers": {"corp": directory.resolver(**options)},
        "partitions": {"default": default, "other": {"resolver": "corp"}},
    }
    config = settings_file(directory.folder, settings)
    with running_server("--config", config, *ADMIN, environment=directory.environment) as server:
        yield server


def reset(directory: ScriptedDirectory, server: RunningServer) -> None:
    """Reset the directory and caches for the next test."""
    directory.reset(PEOPLE)
    with client_without_retries(server) as client:
        for partition in ("default", "other"):
            client.invalidate(partition=partition)


def client_without_retries(server: RunningServer) -> queuegate.Client:
    """Return a client that accepts the first answer."""
    return queuegate.Client(server.address, timeout=60, retry=queuegate.Retry(attempts=1))
