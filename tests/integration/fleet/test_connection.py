"""The connection to a real Redis: alone, with TLS and a password, behind sentinels, a cluster."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import trustme

from queuegate_server.fleet.connection import Script, StoreConnection, StoreUnavailable
from queuegate_server.fleet.keys import Keys
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.settings.fleet import Fleet
from tests.support.eventually import eventually
from tests.support.fakes.tcp_server import running_tcp
from tests.support.servers.free_ports import free_port
from tests.support.servers.redis_server import RedisServer, running_redis

KEYS = Keys("test")
COUNT = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")


@contextlib.asynccontextmanager
async def connected(tmp_path: Path, url: str, **options: object) -> AsyncIterator[StoreConnection]:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    fleet = Fleet.model_validate({"url": url, "secret_file": secret, **options})
    connection = StoreConnection(fleet, KEYS.tag, Refusals())
    try:
        yield connection
    finally:
        await connection.close()


async def check(connection: StoreConnection) -> None:
    key = KEYS.user("p", "u")
    assert await connection.execute("SET", key, b"\0v", "PX", 60_000, seconds=30)
    assert await connection.execute("MGET", key, KEYS.epoch, seconds=30) == [b"\0v", None]
    for count in (2, 4):
        assert await connection.run_script(COUNT, [KEYS.sequence], [2], seconds=30) == count
    assert await connection.pipeline([("GET", key), ("DEL", key)], seconds=30) == [b"\0v", 1]
    identifier = await connection.execute("XADD", KEYS.events, "1-0", "a", b"b", seconds=30)
    assert identifier == b"1-0"
    read = await connection.execute(
        "XREAD", "BLOCK", 30_000, "STREAMS", KEYS.events, "0", seconds=30
    )
    assert read == [[KEYS.events.encode(), [(b"1-0", {b"a": b"b"})]]]


async def test_tcp(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        async with connected(tmp_path, server.url) as connection:
            await check(connection)


async def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    with running_redis(tmp_path, more=["--unixsocket", str(path)]):
        async with connected(tmp_path, f"unix://{path}") as connection:
            await check(connection)


async def test_tls_and_a_password_that_is_read_for_every_connection(tmp_path: Path) -> None:
    ca = trustme.CA()
    with running_redis(tmp_path, ca=ca, password="first") as server:
        password_file = server.folder / "password"
        options = {"password_file": password_file, "ca_file": server.folder / "ca.pem"}
        password_file.write_text("wrong\n")
        async with connected(tmp_path, server.url, **options) as connection:
            with pytest.raises(StoreUnavailable, match="AuthenticationError"):
                await connection.execute("PING", seconds=30)
            password_file.write_text("first\n")
            await check(connection)
        async with connected(tmp_path, server.url, **options | {"ca_file": None}) as connection:
            with pytest.raises(StoreUnavailable, match="certificate"):
                await connection.execute("PING", seconds=30)


def is_complete(node: RedisServer) -> bool:
    """Return whether a node of the cluster knows both."""
    state = node.command("CLUSTER", "INFO")
    return b"cluster_state:ok" in state and b"cluster_known_nodes:2" in state


async def test_a_cluster(tmp_path: Path) -> None:
    """Of two nodes, of which the URL names the one that does not have the keys."""
    with (
        running_redis(tmp_path / "other", cluster=True) as other,
        running_redis(tmp_path / "owner", cluster=True) as owner,
    ):
        slot = int(owner.command("CLUSTER", "KEYSLOT", KEYS.tag).strip(b":\r\n"))
        assert owner.command("CLUSTER", "ADDSLOTS", str(slot)) == b"+OK\r\n"
        rest = [str(each) for each in range(16_384) if each != slot]
        assert other.command("CLUSTER", "ADDSLOTS", *rest) == b"+OK\r\n"
        other.command("CLUSTER", "MEET", "127.0.0.1", str(owner.port), str(owner.bus_port))
        for node in (other, owner):
            eventually(partial(is_complete, node), True)
        url = other.url.replace("redis:", "redis+cluster:")
        async with connected(tmp_path, url) as connection:
            await check(connection)
            # The keys move to the other node.
            owner.command("FLUSHALL")
            _, identity, _ = other.command("CLUSTER", "MYID").split(b"\r\n")
            for node in (other, owner):
                moved = node.command("CLUSTER", "SETSLOT", str(slot), "NODE", identity)
                assert moved == b"+OK\r\n"
            await check(connection)


async def test_a_cluster_that_cannot_be_reached_is_an_error_like_any_other(tmp_path: Path) -> None:
    url = f"redis+cluster://127.0.0.1:{free_port()}"
    async with connected(tmp_path, url) as connection:
        with pytest.raises(StoreUnavailable):
            await connection.execute("PING", seconds=30)
        with pytest.raises(StoreUnavailable):
            await connection.run_script(COUNT, [KEYS.sequence], [2], seconds=30)
        with pytest.raises(StoreUnavailable):
            await connection.pipeline([("GET", KEYS.epoch)], seconds=30)
        with pytest.raises(StoreUnavailable):
            await connection.warm(2, seconds=30)


async def test_sentinels(tmp_path: Path) -> None:
    with running_redis(tmp_path / "main") as server, sentinel_of(server, tmp_path) as sentinel:
        url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/main"
        async with connected(tmp_path, url) as connection:
            await check(connection)


@contextlib.contextmanager
def sentinel_of(server: RedisServer, tmp_path: Path) -> Iterator[RedisServer]:
    file = tmp_path / "sentinel.conf"
    file.write_text(f"sentinel monitor main 127.0.0.1 {server.port} 1\n")
    sentinel = RedisServer(tmp_path / "sentinel", first=[str(file), "--sentinel"])
    sentinel.start()
    try:
        yield sentinel
    finally:
        sentinel.stop()


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("redis://127.0.0.1:{}", "password_file"),
        ("redis+sentinel://127.0.0.1:{}/name", "sentinel_password_file"),
    ],
)
async def test_a_password_that_a_proxy_repeats_is_in_no_message(
    tmp_path: Path, url: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.strip() == b"s3cr+t":
                writer.write(b"-ERR no such backend: AUTH 's3cr+t'\r\n")
                await writer.drain()

    password = tmp_path / "password"
    password.write_text("s3cr+t\n")
    caplog.set_level("DEBUG")
    async with (
        running_tcp(repeat) as port,
        connected(tmp_path, url.format(port), **{key: password}) as connection,
    ):
        with pytest.raises(StoreUnavailable, match="no such backend: AUTH '…'") as raised:
            await connection.execute("PING", seconds=30)
        assert "s3cr+t" not in f"{raised.value} {caplog.text}"


async def test_a_server_that_hangs_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        async with connected(tmp_path, server.url) as connection:
            await connection.execute("PING", seconds=30)
            server.freeze()
            with pytest.raises(StoreUnavailable, match=r"no answer within 0\.01 s"):
                await connection.execute("PING", seconds=0.01)
            server.thaw()
            # The answer that was given up is not taken for that of the next command.
            assert await connection.execute("ECHO", "x", seconds=30) == b"x"
            server.kill()
            with pytest.raises(StoreUnavailable, match="ConnectionError"):
                await connection.execute("PING", seconds=30)


async def test_an_event_loop_that_is_late_does_not_use_up_the_budget(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        async with connected(tmp_path, server.url) as connection:
            await connection.execute("PING", seconds=30)
            busy = True

            async def keep_busy() -> None:
                loop = asyncio.get_running_loop()
                while busy:
                    end = loop.time() + 0.03
                    while loop.time() < end:
                        pass
                    await asyncio.sleep(0)

            task = asyncio.create_task(keep_busy())
            try:
                assert await connection.execute("ECHO", "x", seconds=0.01) == b"x"
            finally:
                busy = False
                await task
