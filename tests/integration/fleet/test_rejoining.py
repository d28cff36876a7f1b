"""A replica that was away forgets what was invalidated meanwhile before it follows the fleet again.

While the directory fails, expired groups are answers, but not those.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.fleet import STAFF, Fleet
from tests.support.servers.redis_server import running_redis

FAILED: Final = {"failed": "the directory is away"}


class Away:
    """A fleet of two, one of which loses Redis at times."""

    def __init__(self, fleet: Fleet, proxy: Proxy) -> None:
        self.fleet = fleet
        self._proxy = proxy

    def may(self, user: str) -> bool | str:
        """Ask the replica that was away; return the error if it has no answer."""
        try:
            return self.fleet.may("far", user)
        except queuegate.GroupsUnavailable as error:
            return type(error).__name__

    async def leave(self) -> None:
        """Cut it off until its lease has ended."""
        await self._proxy.refuse()
        await asyncio.to_thread(eventually, partial(self._states, "near"), {"following", "silent"})

    async def rejoin(self) -> None:
        await self._proxy.start()
        for name in ("far", "near"):
            await asyncio.to_thread(eventually, partial(self._states, name), {"following"})

    def _states(self, name: str) -> set[str]:
        return {each.state for each in self.fleet.clients[name].get_fleet().replicas}


@pytest.fixture
async def away(tmp_path: Path) -> AsyncIterator[Away]:
    with running_redis(tmp_path / "redis") as redis:
        proxy = Proxy(redis.port)
        await proxy.start()
        fleet = Fleet(tmp_path, redis, ScriptedDirectory(tmp_path))
        fleet.directory.reset({"sam": dict(STAFF), "eve": dict(STAFF)})
        try:
            await asyncio.to_thread(fleet.start, "near")
            url = f"redis://127.0.0.1:{proxy.port}"
            await asyncio.to_thread(fleet.start, "far", url=url)
            yield Away(fleet, proxy)
        finally:
            await asyncio.to_thread(fleet.close)
            await proxy.close()


async def test_users_who_were_forgotten_meanwhile_have_no_groups(away: Away) -> None:
    assert [away.may(user) for user in ("sam", "eve")] == [True, True]
    await away.leave()
    away.fleet.directory.answer({"sam": FAILED, "eve": FAILED})
    await asyncio.to_thread(away.fleet.clients["near"].invalidate, ["sam"])
    await away.rejoin()
    assert away.may("sam") == "GroupsUnavailable"
    assert away.may("eve") is True, "nobody has forgotten her groups"


@pytest.mark.parametrize("command", ["FLUSHALL", "XTRIM {queuegate}:events MAXLEN 0"])
async def test_without_the_events_all_users_are_forgotten(away: Away, command: str) -> None:
    assert [away.may(user) for user in ("sam", "eve")] == [True, True]
    await away.leave()
    away.fleet.directory.answer({"sam": FAILED, "eve": FAILED})
    await asyncio.to_thread(away.fleet.clients["near"].invalidate, ["sam"])
    away.fleet.redis.command(*command.split())
    await away.rejoin()
    assert [away.may(user) for user in ("sam", "eve")] == ["GroupsUnavailable"] * 2
