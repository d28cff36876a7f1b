"""A replica's connection to Redis or Valkey: a single server, Sentinel or a cluster.

Each command has a timeout and is not retried, because callers can work without Redis.
"""

import asyncio
import hashlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import NoScriptError, RedisError
from redis.maint_notifications import MaintNotificationsConfig

from queuegate_server.files.safe_open import read_regular
from queuegate_server.fleet.driver import adapt
from queuegate_server.fleet.refusals import Refusals, refusal, unreachable
from queuegate_server.fleet.transport_probe import transport_mistake
from queuegate_server.runtime.threads import AbandonableThreadPool
from queuegate_server.settings.fleet import MAX_SECRET_BYTES, Fleet

_LOG = logging.getLogger("queuegate_server.fleet.connection")

CONNECT_TIMEOUT: Final = 2.0
MAX_CONNECTIONS: Final = 32
LATE_TIMER_TOLERANCE: Final = 0.002
"""How late a timer may fire, in seconds. If it fires later, this process was busy, so Redis may not
have caused the timeout."""
MAX_EXTENSIONS: Final = 20
"""The maximum number of times a timeout is restarted because the process was busy."""
PROBE_INTERVAL: Final = 5.0
"""The minimum number of seconds between two probes for a wrong scheme in `fleet.url`."""


class StoreUnavailable(Exception):
    """A command failed or timed out. It may have been executed anyway."""


class Script:
    """A Lua script, sent to each server once and then run by its hash."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.sha: Final = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class StoreConnection:
    """A pool of connections to Redis. Not thread-safe."""

    def __init__(self, fleet: Fleet, tag: str, refusals: Refusals) -> None:
        """Create the pool without connecting. `tag` is the hash tag shared by all keys."""
        self._refusals = refusals
        self.tag: Final = tag
        self._fleet = fleet
        self._threads = AbandonableThreadPool(2, "fleet")
        self._address = fleet.address
        self._passwords: dict[Path, str] = {}
        """The last password in each file. The server, or an impostor, may repeat it."""
        self._client, self._sentinels = self._build()
        self._closing: set[asyncio.Task[None]] = set()
        self._probe: asyncio.Task[str] | None = None
        self._probed_at = -math.inf
        self._mistake = ""
        """The mistake in `fleet.url` that makes all connections fail."""

    async def execute(self, *command: str | bytes | float, seconds: float) -> Any:
        """Run a command with a timeout of `seconds`; a blocking command must block for less.

        Raises StoreUnavailable.
        """
        return await self._guarded(lambda: self._run(*command), str(command[0]), seconds)

    async def run_script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        seconds: float,
    ) -> Any:
        """Run a script. Raises StoreUnavailable."""

        async def run() -> Any:
            try:
                return await self._run("EVALSHA", script.sha, len(keys), *keys, *args)
            except NoScriptError:
                return await self._run("EVAL", script.text, len(keys), *keys, *args)

        return await self._guarded(run, "EVALSHA", seconds, script.sha)

    async def pipeline(
        self, commands: Sequence[Sequence[str | bytes | float]], *, seconds: float
    ) -> list[Any]:
        """Run several commands in one round trip. Raises StoreUnavailable if any of them fails."""

        async def run() -> list[Any]:
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            return await pipe.execute()

        name = str(commands[0][0])
        replies: list[Any] = await self._guarded(run, name, seconds, f"pipeline {name}")
        return replies

    async def warm(self, count: int, *, seconds: float) -> None:
        """Open `count` connections in advance for later commands. Raises StoreUnavailable."""
        # Commands in progress at the same time use separate connections.
        replies = await asyncio.gather(
            *(self.execute("PING", seconds=seconds) for _ in range(count)), return_exceptions=True
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply

    def reconnect(self) -> None:
        """Close all connections to an unresponsive Redis, so that the next command reconnects.

        Pending commands fail. The driver looks for a new master only when it reconnects. The first
        host moves to the end of the list, because a hung sentinel would use up the timeout again.
        """
        task = asyncio.create_task(_close(self._client, *self._sentinels))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        hosts = self._address.hosts
        self._address = self._address._replace(hosts=(*hosts[1:], *hosts[:1]))
        self._client, self._sentinels = self._build()

    async def close(self) -> None:
        """Close all connections. Takes at most two seconds."""
        if self._probe is not None:
            self._probe.cancel()
        await asyncio.gather(_close(self._client, *self._sentinels), *self._closing)
        self._threads.close()

    async def _run(self, *command: str | bytes | float) -> Any:
        client = self._client
        if not isinstance(client, redis.asyncio.RedisCluster):
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]
        if not client.nodes_manager.slots_cache:
            await client.initialize()
        # Without a target node, the driver would ask the cluster which arguments of a script or
        # stream command are keys.
        node = client.get_node_from_key(self.tag)
        return await client.execute_command(*command, target_nodes=node)

    async def _guarded(
        self, run: Callable[[], Awaitable[Any]], command: str, seconds: float, key: str = ""
    ) -> Any:
        """Run a command. Record a refusal under `key`, by default the command's name.

        Raises StoreUnavailable.
        """
        task = asyncio.ensure_future(run())
        try:
            is_done = await _done_within(task, seconds)
        finally:
            # If a reply is pending, cancellation makes the driver close the connection.
            task.cancel()
        if not is_done:
            raise self._failure(f"no answer within {seconds:g} s")
        try:
            reply = task.result()
        except Exception as error:  # some of the driver's errors are not RedisErrors
            secrets = self._passwords.values()
            if sentence := refusal(command, error, secrets):
                self._refusals.add(key or command, sentence)
                raise StoreUnavailable(sentence) from error
            raise self._failure(unreachable(error, secrets)) from error
        self._refusals.discard(key or command)
        self._mistake = ""
        return reply

    def _failure(self, text: str) -> StoreUnavailable:
        """Return the error for a failed command, and probe for a wrong scheme in `fleet.url`."""
        if self._mistake:
            return StoreUnavailable(self._mistake)
        now = asyncio.get_running_loop().time()
        if self._probe is None and now >= self._probed_at + PROBE_INTERVAL:
            self._probed_at = now
            address = self._address
            self._probe = asyncio.create_task(transport_mistake(address.hosts, tls=address.tls))
            self._probe.add_done_callback(self._on_probe_done)
        return StoreUnavailable(text)

    def _on_probe_done(self, probe: asyncio.Task[str]) -> None:
        self._probe = None
        if not probe.cancelled() and probe.exception() is None:
            self._mistake = probe.result()

    def _build(
        self,
    ) -> tuple["redis.asyncio.Redis | redis.asyncio.RedisCluster", Sequence[redis.asyncio.Redis]]:
        fleet, address = self._fleet, self._address
        common: dict[str, Any] = {
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        }
        if address.tls:
            files = {
                "ssl_ca_certs": fleet.ca_file,
                "ssl_certfile": fleet.cert_file,
                "ssl_keyfile": fleet.key_file,
            }
            common["ssl"] = True
            common |= {name: str(path) for name, path in files.items() if path is not None}
        options = common | {
            "credential_provider": self._credentials(fleet.username, fleet.password_file),
            "max_connections": MAX_CONNECTIONS,
        }
        if address.path:
            options["unix_socket_path"] = address.path
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster
        sentinels: Sequence[redis.asyncio.Redis] = ()
        match address.kind:
            case "cluster":
                nodes = [redis.asyncio.cluster.ClusterNode(*each) for each in address.hosts]
                client = redis.asyncio.RedisCluster(startup_nodes=nodes, **options)
            case "sentinel":
                provider = self._credentials(None, fleet.sentinel_password_file)
                of_sentinels = common | {"credential_provider": provider}
                sentinel = Sentinel(address.hosts, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
                client = sentinel.master_for(address.service, db=address.database, **options)
                sentinels = sentinel.sentinels
            case "single":
                if address.hosts:
                    options["host"], options["port"] = address.hosts[0]
                client = redis.asyncio.Redis(db=address.database, **options)
        adapt(client, *sentinels)
        return client, sentinels

    def _credentials(self, username: str | None, file: Path | None) -> "_FileCredentials | None":
        if file is None:
            return None
        return _FileCredentials(username, file, self._threads, self._passwords)


@dataclass
class _FileCredentials(CredentialProvider):
    """Credentials for Redis. The password file is read again for each connection."""

    username: str | None
    password_file: Path
    threads: AbandonableThreadPool
    passwords: dict[Path, str]
    """Receives the password that was read last."""

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Read the password file; blocks. Raises OSError, or ValueError if it is invalid."""
        content = read_regular(self.password_file, MAX_SECRET_BYTES)
        try:
            password = content.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:  # the message would quote a byte of the password
            raise ValueError(f"{self.password_file} is not UTF-8") from None
        if not password:
            raise ValueError(f"{self.password_file} contains no password")
        self.passwords[self.password_file] = password
        return (self.username, password) if self.username else (password,)

    async def get_credentials_async(self) -> Any:
        return await self.threads.run("password", self.get_credentials)


async def _close(*clients: redis.asyncio.Redis | redis.asyncio.RedisCluster) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            for client in clients:
                await client.aclose()
    except (RedisError, OSError, TimeoutError) as error:
        _LOG.debug("closing a connection to Redis failed", exc_info=error)


async def _done_within(task: "asyncio.Future[Any]", seconds: float) -> bool:
    """Return whether a task finishes in time. Restarts the timeout if the event loop was late."""
    loop = asyncio.get_running_loop()
    for _ in range(MAX_EXTENSIONS):
        due = loop.time() + seconds
        done, _ = await asyncio.wait((task,), timeout=seconds)
        if done:
            return True
        if loop.time() < due + LATE_TIMER_TOLERANCE:
            return False
    return False
