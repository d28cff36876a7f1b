"""The rows of replicas in a real Redis."""

from dataclasses import replace
from pathlib import Path

from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.events import Row
from queuegate_server.fleet.keys import Keys
from queuegate_server.fleet.stream import Stream
from queuegate_server.settings.fleet import Fleet
from tests.support.servers.redis_server import running_redis

OWN = Row("own", "me", 1)
A = Row("ida", "a", 1, epoch="ee", sequence=6, settled=2, confirmed={"aa": ["gate"]})
B = Row("idb", "b", 1)


async def test_only_a_row_that_is_as_it_was_read_is_removed(tmp_path: Path) -> None:
    """A replica that was silent for long may write its row again before the old one is removed."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    with running_redis(tmp_path) as redis:
        settings = Fleet.model_validate({"url": redis.url, "secret_file": secret})
        keys = Keys("test")
        stream = Stream(StoreConnection(settings, keys.tag), keys, settings.secret())
        try:
            for row in (A, B, again := replace(A, count=2)):
                await stream.heartbeat(row, seconds=30)
            await stream.drop_rows([A, B, replace(A, replica="idc")])
            answer = await stream.heartbeat(OWN, seconds=30)
            assert sorted(answer.rows, key=lambda row: row.replica) == [again, OWN]
            await stream.drop_rows([again])
            assert (await stream.heartbeat(OWN, seconds=30)).rows == [OWN]
        finally:
            await stream.close()
