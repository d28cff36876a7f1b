"""A server with many queues and users, and the correct answers to questions."""

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.generators.policies import policy_text, random_queues
from tests.support.oracles.queue_access import PolicyOracle
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

SEED = 20_260_701
USERS = [f"u{number}" for number in range(200)]
GROUPS = [f"g{number}" for number in range(40)]
FAILING = set(USERS[:10])
UNKNOWN = set(USERS[10:30])


def groups_of(user: str) -> list[str]:
    if user in FAILING or user in UNKNOWN:
        return []
    return random.Random(zlib.crc32(user.encode())).sample(GROUPS, 3)


@dataclass(frozen=True)
class Setup:
    """A server on TCP and a Unix socket, its user directory, and the correct answers."""

    server: RunningServer
    addresses: tuple[str, str]
    directory: ScriptedDirectory
    oracle: PolicyOracle
    paths: list[str]


@contextmanager
def busy_server(folder: Path, *, lookup_timeout: str = "60s") -> Iterator[Setup]:
    """Run the server with a cache that is too small and short lifetimes."""
    chance = random.Random(SEED)
    queues = random_queues(chance, 400, USERS, GROUPS)
    (folder / "queues.yaml").write_text(policy_text({"default": ("", queues)}))
    directory = ScriptedDirectory(folder)
    for user in USERS:
        answer: dict[str, Any] = {"groups": groups_of(user)}
        if user in FAILING:
            answer = {"failed": "down"}
        elif user in UNKNOWN:
            answer = {"unknown": "no such user"}
        directory.script[user] = {**answer, "seconds": chance.random() / 200}
    directory.answer({"census": {"census": True}})
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {
            "corp": directory.resolver(lookup_timeout=lookup_timeout, max_concurrent=10_000)
        },
        "partitions": {
            "default": {
                "resolver": "corp",
                # Entries constantly expire, are refreshed and are evicted.
                "cache": {
                    "positive_ttl": "300ms",
                    "negative_ttl": "100ms",
                    "failure_ttl": "50ms",
                    "max_entries": 100,
                },
            }
        },
    }
    listen = ["127.0.0.1:0", f"unix:{folder}/q.sock"]
    config = settings_file(folder, settings)
    directory.constants |= with_constants.NO_OVERLOAD
    with running_server(
        "--config", config, *ADMIN, listen=listen, environment=directory.environment
    ) as server:
        tcp = server.wait_for_log("listening")["address"]
        yield Setup(server, (tcp, listen[1]), directory, PolicyOracle(queues), list(queues))
