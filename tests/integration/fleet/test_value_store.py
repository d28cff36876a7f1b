"""Reads and writes of values beside live traffic, on a real Redis that hangs, dies and returns."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from queuegate_server.fleet import value_store
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.join import FleetParts
from queuegate_server.fleet.keys import Keys
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.shared_groups import ValueUnavailable
from queuegate_server.fleet.value_store import MAX_FAILURES, BatchingStore
from queuegate_server.settings.fleet import Fleet
from tests.support.fakes.loop import run_ready_callbacks, wait_until
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.redis_server import RedisServer, running_redis

KEYS = Keys("test")


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path / "redis") as server:
        yield server


@contextlib.asynccontextmanager
async def opened(
    server: RedisServer, tmp_path: Path, read_timeout: float = 30, url: str = ""
) -> AsyncIterator[BatchingStore]:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    fleet = Fleet.model_validate({"url": url or server.url, "secret_file": secret})
    store = BatchingStore(StoreConnection(fleet, KEYS.tag, Refusals()), read_timeout)
    store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[BatchingStore]:
    async with opened(redis_server, tmp_path) as store:
        await wait_until(lambda: store.is_available)
        yield store


@pytest.fixture
async def hasty(redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[BatchingStore]:
    """A store that waits for 10 ms, for a Redis that does not answer at all."""
    async with opened(redis_server, tmp_path, 0.01) as store:
        await wait_until(lambda: store.is_available)
        yield store


async def test_a_master_that_was_replaced_is_left(tmp_path: Path) -> None:
    """Behind one address: connections to the former one stay open, and it answers."""
    with (
        running_redis(tmp_path / "former") as former,
        running_redis(tmp_path / "promoted") as promoted,
    ):
        proxy = Proxy(former.port)
        await proxy.start()
        try:
            async with opened(former, tmp_path, url=f"redis://127.0.0.1:{proxy.port}") as store:
                await wait_until(lambda: store.is_available)
                proxy.target = promoted.port
                answer = former.command("REPLICAOF", "127.0.0.1", str(promoted.port))
                assert answer == b"+OK\r\n"
                while promoted.get(key()) is None:
                    await wait_until(lambda: store.is_available)
                    store.put(key(), lambda: b"value", 60.0)
                    await asyncio.sleep(0.02)
        finally:
            await proxy.close()


def key(number: int = 0) -> str:
    return KEYS.user("p", f"u{number}")


def calls(server: RedisServer, command: str) -> int:
    text = server.command("INFO", "commandstats").decode()
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", text)
    return int(found[1]) if found else 0


async def fail_until_left_alone(store: BatchingStore) -> None:
    for _ in range(MAX_FAILURES):
        with pytest.raises(ValueUnavailable):
            await store.get(key())
    assert not store.is_available


async def test_values_are_stored_until_they_expire(
    store: BatchingStore, redis_server: RedisServer
) -> None:
    store.put(key(), lambda: b"\0value", 60)
    store.put(key(1), lambda: None, 60)
    await wait_until(lambda: store.writes["written"] == 1)
    assert store.writes["outdated"] == 1
    assert await store.get(key()) == b"\0value"
    assert await store.get(key(1)) is None
    (milliseconds,) = re.findall(rb":(\d+)\r\n", redis_server.command("PTTL", key()))
    assert 0 < int(milliseconds) <= 60_000


async def test_a_value_that_several_read_at_the_same_time_is_read_once(
    store: BatchingStore, redis_server: RedisServer
) -> None:
    for number in range(1_000):
        store.put(key(number), lambda number=number: b"%d" % number, 60)  # type: ignore[misc]
    await wait_until(lambda: store.writes["written"] == 1_000)
    values = await asyncio.gather(*(store.get(key(number % 1_000)) for number in range(3_000)))
    assert values == [b"%d" % (number % 1_000) for number in range(3_000)]
    assert calls(redis_server, "get") == 1_000


async def test_a_key_is_claimed_by_one(store: BatchingStore, redis_server: RedisServer) -> None:
    assert [await store.lock(key(number), 60) for number in (0, 1, 0)] == [True, True, False]
    redis_server.command("PEXPIRE", key(), "1")
    await wait_until(lambda: redis_server.get(key()) is None)
    assert await store.lock(key(), 60)


async def test_a_reader_that_is_cancelled_disturbs_no_other(store: BatchingStore) -> None:
    given_up = asyncio.create_task(store.get(key()))
    other = asyncio.create_task(store.get(key()))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await other is None


@pytest.mark.parametrize("way", ["freeze", "pause", "kill"])
async def test_redis_is_left_alone_while_it_fails(
    way: str, hasty: BatchingStore, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    hasty.put(key(), lambda: b"value", 600)
    await wait_until(lambda: hasty.writes["written"] == 1)
    stop: Callable[[], None] = {
        "freeze": redis_server.freeze,
        "pause": lambda: redis_server.pause(5_000),
        "kill": redis_server.kill,
    }[way]
    stop()
    await fail_until_left_alone(hasty)
    # Callers learn it at once, and nothing is sent.
    for _ in range(100):
        with pytest.raises(ValueUnavailable):
            await hasty.get(key())
    hasty.put(key(1), lambda: b"value", 60)
    assert hasty.failed_reads == MAX_FAILURES
    assert hasty.writes["dropped"] == 1
    if way == "freeze":
        redis_server.thaw()
    elif way == "kill":
        redis_server.start()
    await wait_until(lambda: hasty.is_available)
    hasty._read_timeout = 30
    assert await hasty.get(key()) == (None if way == "kill" else b"value")
    assert hasty.circuit_openings == 1
    messages = [each.getMessage() for each in caplog.records if each.name.startswith("queuegate")]
    assert [text.partition(":")[0] for text in messages] == [
        "group sharing is paused until Redis answers again",
        "group sharing has resumed",
    ]


async def test_reads_that_wait_for_a_connection_fail_with_those_before_them(
    hasty: BatchingStore, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_store, "MAX_READS", 1)
    redis_server.freeze()
    first = asyncio.create_task(hasty.get(key()))
    await run_ready_callbacks()
    second = asyncio.create_task(hasty.get(key(1)))
    for read in (first, second):
        with pytest.raises(ValueUnavailable):
            await read
    assert hasty.failed_reads == 1


async def test_writes_are_bounded_and_fail_without_harm(
    store: BatchingStore, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_store, "MAX_UNWRITTEN", 2)
    redis_server.kill()
    for number in range(3):
        store.put(key(number), lambda: b"value", 60)
    await wait_until(lambda: store.writes["failed"] == 2)
    assert store.writes["dropped"] == 1
    assert not store.is_available


async def test_a_redis_that_comes_later(redis_server: RedisServer, tmp_path: Path) -> None:
    redis_server.kill()
    async with opened(redis_server, tmp_path) as store:
        with pytest.raises(ValueUnavailable):
            await store.get(key())
        redis_server.start()
        await wait_until(lambda: store.is_available)
        assert await store.get(key()) is None


async def test_closing_ends_readers(store: BatchingStore, redis_server: RedisServer) -> None:
    redis_server.freeze()
    read = asyncio.create_task(store.get(key()))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(ValueUnavailable):
        await read


def test_secrets_that_every_account_may_read_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o644)
    settings = Fleet.model_validate({"url": "redis://127.0.0.1:1", "secret_file": secret})
    parts = FleetParts(settings, None, lambda: 0.0, lambda: 0.0)
    assert not parts.shares_groups
    assert [getattr(each, "file", None) for each in caplog.records] == [str(secret)]
