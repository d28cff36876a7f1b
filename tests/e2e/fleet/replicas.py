"""Replicas of a fleet that query one slapd and share groups through a real Redis."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from bench.big_directory import BigDirectory, group
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.admin_port import LISTEN, get_json, ops_address, value
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.servers.redis_server import running_redis

NAMES: Final = ("a", "b", "c")
QUEUE: Final = "root.first"
"""The queue whose ACL lists the first group."""
_POLICY: Final = f"""\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {{name: first, submitacl: " {group(0)}"}}
"""
_folders = itertools.count()


class Replica(NamedTuple):
    """A server, the address of its metrics, and its process."""

    address: str
    ops: str
    pid: int

    def count(self, metric: str, *labels: str) -> int:
        """Return the sum of a metric over these label values."""
        return int(value(self.ops, metric, *labels))

    @property
    def state_of_changes(self) -> str:
        """Return `following` or, if another replica follows the directory, `standby`."""
        _, details = get_json(self.ops, "/readyz")
        return str(details["resolvers"]["changes"][0]["state"])


@contextmanager
def running_replicas(
    folder: Path, directory: BigDirectory, names: Sequence[str] = NAMES, **options: str
) -> Iterator[list[Replica]]:
    """Run the replicas of a fleet with some options, entered once they share groups,
    and one of them follows the directory if it can be followed.
    """
    own = folder / f"fleet-{next(_folders)}"
    own.mkdir()
    secret = own / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(own / "redis"))
        fleet = {"url": redis.url, "secret_file": str(secret), **options}
        started = [
            stack.enter_context(_running(own / name, directory, {**fleet, "replica": name}))
            for name in names
        ]
        for each in started:
            eventually(partial(each.count, "queuegate_fleet_groups_available"), 1)
        if directory.is_followed:
            states = ["following", *["standby"] * (len(names) - 1)]
            eventually(lambda: sorted(each.state_of_changes for each in started), states)
        yield started


@contextmanager
def _running(
    folder: Path, directory: BigDirectory, fleet: Mapping[str, Any] | None
) -> Iterator[Replica]:
    folder.mkdir()
    policy = folder / "queues.yaml"
    policy.write_text(_POLICY)
    settings: dict[str, Any] = {
        "policy": {"path": str(policy)},
        "resolvers": {"corp": yaml.safe_load(directory.resolver())},
        "partitions": {"default": {"resolver": "corp", "cache": {"positive_ttl": "1h"}}},
    }
    if fleet is not None:
        settings["fleet"] = dict(fleet)
    config = settings_file(folder, settings)
    with running_server("--config", config, *ADMIN, *LISTEN) as server:
        if fleet is not None:
            server.wait_for_log("following the fleet")
        yield Replica(server.address, ops_address(server), server.process.pid)
