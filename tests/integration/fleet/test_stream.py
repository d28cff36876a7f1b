"""The events and the statuses of replicas in a real Redis."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.fleet import stream as module
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.events import Change, ReplicaStatus
from queuegate_server.fleet.keys import Keys, LogPosition, Signer
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.stream import READ_AT_ONCE, Stream
from queuegate_server.settings.fleet import Fleet
from tests.support.servers.redis_server import RedisServer, running_redis

OWN = ReplicaStatus("own", "me", 1)
A = ReplicaStatus(
    "ida", "a", 1, epoch="ee", sequence=6, confirmed_through=(2, "ee"), confirmed={"aa": ["gate"]}
)
B = ReplicaStatus("idb", "b", 1)
KEYS = Keys("test")
SECRET = b"s" * 32


class Redis:
    """The stream of a fleet, with a history that has begun."""

    def __init__(self, server: RedisServer, stream: Stream) -> None:
        self.server = server
        self.stream = stream

    async def head(self) -> LogPosition:
        head = (await self.stream.heartbeat(OWN, seconds=30)).head
        assert head is not None
        return head

    async def append(self, *nonces: bytes) -> LogPosition:
        """Append events that forget nobody in particular; return the newest."""
        head = await self.head()
        for nonce in nonces:
            answer = await self.stream.append(
                head, Change.invalidate("p", (), is_awaited=False), nonce
            )
            assert answer.has_appended
            assert answer.head is not None
            head = answer.head
        return head


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[Redis]:
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    with running_redis(tmp_path) as server:
        settings = Fleet.model_validate({"url": server.url, "secret_file": secret})
        stream = Stream(StoreConnection(settings, KEYS.tag, Refusals()), KEYS, settings.secret())
        await stream.begin(b"")
        yield Redis(server, stream)
        await stream.close()


async def test_only_a_status_that_is_as_it_was_read_is_removed(redis: Redis) -> None:
    """A replica that was silent for long may have written another one meanwhile."""
    stream = redis.stream
    for status in (A, B, again := replace(A, serial=2)):
        await stream.heartbeat(status, seconds=30)
    await stream.remove_replicas([A, B, replace(A, instance="idc")])
    answer = await stream.heartbeat(OWN, seconds=30)
    assert sorted(answer.statuses, key=lambda status: status.instance) == [again, OWN]
    await stream.remove_replicas([again])
    assert (await stream.heartbeat(OWN, seconds=30)).statuses == [OWN]


async def test_a_status_of_a_later_version_is_removed(redis: Redis) -> None:
    content = b'{"instance":"idc","name":"c","serial":3,"mood":"good"}'
    written = Signer(SECRET, "status").mac(content) + content
    redis.server.command("HSET", KEYS.replicas, "idc", written)
    (status,) = [
        each for each in (await redis.stream.heartbeat(A, seconds=30)).statuses if each != A
    ]
    await redis.stream.remove_replicas([status])
    assert (await redis.stream.heartbeat(A, seconds=30)).statuses == [A]


async def test_a_writer_that_found_another_event_in_its_place_gets_the_next_turn(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 60.0)
    change = Change("reload")
    before = await redis.head()
    head = await redis.append(b"near 1")
    late = await redis.stream.append(before, change, b"far")
    assert (late.has_appended, late.head) == (False, head)
    near = await redis.stream.append(head, change, b"near 2")
    assert (near.has_appended, near.head) == (False, head), "it is not its turn"
    far = await redis.stream.append(head, change, b"far")
    assert far.has_appended
    assert far.head is not None
    assert (await redis.stream.append(far.head, change, b"near 2")).has_appended


@pytest.mark.parametrize("command", ["PEXPIRE {} 20", "PERSIST {}"])
async def test_a_turn_that_nobody_takes_or_that_somebody_wrote_holds_up_nobody(
    redis: Redis, command: str
) -> None:
    before = await redis.head()
    head = await redis.append(b"near 1")
    assert not (await redis.stream.append(before, Change("reload"), b"far")).has_appended
    redis.server.command(*command.format(KEYS.turn).split())
    await asyncio.sleep(0.05)
    assert (await redis.stream.append(head, Change("reload"), b"near 2")).has_appended


async def test_the_newest_events_are_read_in_pages(redis: Redis) -> None:
    nonces = [b"%d" % number for number in range(2 * READ_AT_ONCE + 5)]
    head = await redis.append(*nonces)
    recent = await redis.stream.recent(head)
    assert [each.position.nonce for each in recent] == nonces
    earlier = recent[READ_AT_ONCE - 1].position
    assert await redis.stream.recent(earlier) == recent[:READ_AT_ONCE]


async def test_of_large_events_only_the_newest_are_read(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that joins must be done long before its lease would have ended."""
    monkeypatch.setattr(module, "MAX_RECENT_BYTES", 100)
    nonces = [b"%d" % number for number in range(2 * READ_AT_ONCE)]
    head = await redis.append(*nonces)
    recent = await redis.stream.recent(head)
    assert [each.position.nonce for each in recent] == nonces[READ_AT_ONCE:]


async def test_events_are_read_as_long_as_a_lease_permits(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    nonces = [b"%d" % number for number in range(3 * READ_AT_ONCE)]
    head = await redis.append(*nonces)
    reading = redis.stream._store.run_script

    async def slow(*script: Any, seconds: float) -> Any:
        answer = await reading(*script, seconds=seconds)
        await asyncio.sleep(module.RECENT_SECONDS)
        return answer

    monkeypatch.setattr(redis.stream._store, "run_script", slow)
    recent = await redis.stream.recent(head)
    assert [each.position.nonce for each in recent] == nonces[-READ_AT_ONCE:]


async def test_no_events_from_before_one_that_somebody_else_wrote_are_read(redis: Redis) -> None:
    head = await redis.append(*[b"%d" % number for number in range(READ_AT_ONCE + 3)])
    redis.server.command("XDEL", KEYS.events, "2-0")
    redis.server.command("XADD", KEYS.events + "-copy", "2-0", "event", "garbage")
    redis.server.command("COPY", KEYS.events + "-copy", KEYS.events, "REPLACE")
    assert await redis.stream.recent(head) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(KEYS.sequence, "1" + "0" * 18), (KEYS.sequence, "-1"), (KEYS.head, "9 bytes .")],
)
async def test_a_head_that_no_replica_has_written_is_none(
    redis: Redis, key: str, value: str
) -> None:
    """Cursors of gates are made from it."""
    await redis.append(b"nonce 01")
    redis.server.command("SET", key, value)
    answer = await redis.stream.heartbeat(OWN, seconds=30)
    assert answer.head is None
    await redis.stream.begin(answer.epoch)
    assert (await redis.head()).sequence == 0


@pytest.mark.parametrize("stays", [True, False])
async def test_a_stray_entry_keeps_out_no_event(redis: Redis, *, stays: bool) -> None:
    """Redis accepts no number below the highest that the stream has ever had."""
    head = await redis.append(b"1", b"2")
    redis.server.command("XADD", KEYS.events, "50-0", "foo", "bar")
    if not stays:
        redis.server.command("XDEL", KEYS.events, "50-0")
    change = Change.invalidate("p", (), is_awaited=False)
    refused = await redis.stream.append(head, change, b"3")
    assert not refused.has_appended
    assert refused.head is not None
    assert refused.head.epoch != head.epoch
    assert await redis.head() == refused.head
    assert (await redis.append(b"3", b"4")).sequence == 2
