"""An invalidation at a replica that cannot reach Redis for a moment reaches the others later."""

import asyncio
from pathlib import Path

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.fleet import OTHERS, STAFF, Fleet
from tests.support.servers.redis_server import running_redis


async def test_it_is_sent_when_redis_can_be_reached_again(tmp_path: Path) -> None:
    """Also if that is before any lease has ended, so that no replica has lost the order."""
    with running_redis(tmp_path / "redis") as redis:
        proxy = Proxy(redis.port)
        await proxy.start()
        fleet = Fleet(tmp_path, redis, ScriptedDirectory(tmp_path))
        fleet.directory.reset({"sam": dict(STAFF)})
        try:
            await asyncio.to_thread(fleet.start, "near")
            url = f"redis://127.0.0.1:{proxy.port}"
            await asyncio.to_thread(fleet.start, "far", url=url)
            for number in range(4):
                before, after = (STAFF, OTHERS) if number % 2 == 0 else (OTHERS, STAFF)
                for name in ("near", "far"):
                    assert await asyncio.to_thread(fleet.may, name) is (before is STAFF)
                fleet.directory.answer({"sam": dict(after)})
                await proxy.refuse()
                with pytest.raises(
                    queuegate.ServerUnavailable, match="the invalidation reached 1 of"
                ):
                    await asyncio.to_thread(fleet.clients["far"].invalidate, ["sam"])
                await proxy.start()
                for name in ("far", "near"):
                    await asyncio.to_thread(eventually, lambda: fleet.may(name), after is STAFF)  # noqa: B023
                await asyncio.to_thread(fleet.until_barriers_are_quick)
        finally:
            await asyncio.to_thread(fleet.close)
            await proxy.close()
