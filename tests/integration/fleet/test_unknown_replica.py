"""A barrier waits also for a replica whose row Redis lost before others had seen it."""

import asyncio
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.fleet import OTHERS, STAFF, Fleet
from tests.support.servers.redis_server import running_redis


async def test_it_does_not_answer_from_old_groups_after_a_barrier(tmp_path: Path) -> None:
    with running_redis(tmp_path / "redis") as redis:
        proxies = {name: Proxy(redis.port) for name in ("near", "far")}
        fleet = Fleet(tmp_path, redis, ScriptedDirectory(tmp_path))
        fleet.directory.reset({"sam": dict(STAFF)})
        try:
            for name, proxy in proxies.items():  # neither reaches Redis while the other does
                await proxy.start()
                url = f"redis://127.0.0.1:{proxy.port}"
                await asyncio.to_thread(fleet.start, name, *LISTEN, url=url)
                await proxy.refuse()
            ops = ops_address(fleet.servers["far"])
            await asyncio.to_thread(eventually, lambda: value(ops, "queuegate_fleet_following"), 0)
            assert await asyncio.to_thread(fleet.may, "far") is True, "it asks, and uses it alone"
            redis.command("FLUSHALL")
            fleet.directory.answer({"sam": dict(OTHERS)})
            await proxies["near"].start()
            near = fleet.clients["near"]
            await asyncio.to_thread(eventually, lambda: near.get_fleet().connected, True)
            await asyncio.to_thread(near.invalidate, ["sam"], wait=True)
            assert await asyncio.to_thread(fleet.may, "far") is False
        finally:
            await asyncio.to_thread(fleet.close)
            for proxy in proxies.values():
                await proxy.close()
