"""A real Redis master with replicas, and sentinels that promote another server when it is gone."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis

from tests.support.eventually import eventually
from tests.support.servers.redis_server import RedisServer

SERVICE: Final = "main"
DOWN_AFTER_MS: Final = 1_000
"""The time without an answer after which a sentinel considers a server gone."""
FAILOVER_SECONDS: Final = 180
"""On a busy machine, sentinels distrust their clocks for 30 s."""


class ReplicatedRedis:
    """A master, its replicas, and three sentinels."""

    def __init__(self, folder: Path, *, replicas: int) -> None:
        self._folder = folder
        quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        # As the how-to page recommends: a replaced master accepts no heartbeats.
        safe = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "3")
        self.servers: Final = [
            RedisServer(folder / f"server{number}", more=[*quick, *safe])
            for number in range(1 + replicas)
        ]
        self.sentinels: Final[list[RedisServer]] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def master(self) -> RedisServer:
        """The server that the first sentinel names."""
        port = self._masters(self.sentinels[:1]).pop()
        return next(each for each in self.servers if each.port == port)

    @property
    def replicas(self) -> Sequence[RedisServer]:
        """All servers except the master."""
        master = self.master
        return [each for each in self.servers if each is not master]

    def start(self) -> None:
        """Start everything, and wait until the sentinels know it."""
        master, *replicas = self.servers
        for server in self.servers:
            server.start()
        for replica in replicas:
            self.follow(replica, master)
        for number in range(3):
            file = self._folder / f"sentinel{number}.conf"
            file.write_text(
                f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 2\n"
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 3000\n"
            )
            first = [str(file), "--sentinel"]
            sentinel = RedisServer(self._folder / f"sentinel{number}", first=first)
            sentinel.start()
            self.sentinels.append(sentinel)
        self.until_replicated()

    def follow(self, replica: RedisServer, master: RedisServer) -> None:
        """Make a server a replica of another."""
        answer = replica.command("REPLICAOF", "127.0.0.1", str(master.port))
        assert answer.startswith(b"+OK"), answer

    def fail_over(self) -> None:
        """Make a sentinel promote a replica while the master runs."""
        answer = self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
        assert answer == b"+OK\r\n", answer

    def until_failed_over(self, former: RedisServer) -> None:
        """Wait until all sentinels name another master."""

        def is_named() -> bool:
            return former.port in self._masters(self.sentinels)

        eventually(is_named, False, FAILOVER_SECONDS)

    def until_replicated(self) -> None:
        """Wait until the sentinels know the master and each other, and all servers follow it."""
        usable = {"num-other-sentinels": 2, "usable replicas": len(self.servers) - 1}
        for sentinel in self.sentinels:
            eventually(partial(_seen_by, sentinel), usable, FAILOVER_SECONDS)

    def stop(self) -> None:
        """Stop everything."""
        for each in (*self.sentinels, *self.servers):
            each.stop()

    def _masters(self, sentinels: Sequence[RedisServer]) -> set[int]:
        """Return the ports that sentinels name."""
        return {_ask(each, "get-master-addr-by-name")[1] for each in sentinels}


def _ask(sentinel: RedisServer, question: str) -> Any:
    with redis.Redis(port=sentinel.port) as client:
        if question == "get-master-addr-by-name":
            return client.sentinel_get_master_addr_by_name(SERVICE)
        return client.sentinel_master(SERVICE), client.sentinel_slaves(SERVICE)


def _seen_by(sentinel: RedisServer) -> dict[str, int]:
    master, replicas = _ask(sentinel, "state")
    usable = [each["flags"] == "slave" and each["master-link-status"] == "ok" for each in replicas]
    return {
        "num-other-sentinels": master["num-other-sentinels"],
        "usable replicas": usable.count(True),
    }


@contextlib.contextmanager
def replicated_redis(folder: Path, *, replicas: int = 1) -> Iterator[ReplicatedRedis]:
    """Run a master, its replicas and sentinels, and stop them at the end in any case."""
    group = ReplicatedRedis(folder, replicas=replicas)
    try:
        group.start()
        yield group
    finally:
        group.stop()
