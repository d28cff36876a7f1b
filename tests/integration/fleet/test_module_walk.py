"""The path of a cold lookup in a fleet: past a real Redis to the directory."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.fleet.join import FleetParts
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from queuegate_server.settings.fleet import Fleet
from tests.support.fakes.ldap_server import fake_directory
from tests.support.fakes.loop import wait_until
from tests.support.fakes.small_directory import answer, options
from tests.support.module_walk import ModuleWalk
from tests.support.servers.redis_server import RedisServer, running_redis

MOST = 20
OF_REDIS = {"fleet.connection", "fleet.driver", "fleet.refusals"}
"""The Redis driver and what surrounds it: a task of the store sends the reads of many lookups."""


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path / "redis") as server:
        yield server


async def test_a_cold_lookup_in_a_fleet_passes_few_modules(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    settings = Fleet.model_validate(
        {"url": redis_server.url, "secret_file": secret, "read_timeout": 10}
    )
    parts = FleetParts(settings, None, time.monotonic, time.time)
    session = parts.session
    session.log.follow([], LogPosition(b"e" * 16, 0, b""), 0.0)
    parts.store.open()
    await wait_until(lambda: parts.store.is_available)
    async with fake_directory(answer) as directory:
        given = LdapOptions.model_validate(options(directory.url))
        resolver = LdapResolver(given)
        await resolver.open()
        assert resolver.pool is not None
        await resolver.pool.connection()
        groups = GroupResolver(
            GuardedResolver("corp", resolver, given),
            GroupCache(CacheOptions(), time.monotonic, time.time, lease=session.lease),
            shared=parts.groups("default", "settings"),
        )
        walk = ModuleWalk("ldap")
        resolution = await walk.run(groups.resolve("sue"))
        assert resolution.entry.outcome == KnownUser(("staff",))
        assert len(set(walk.stays) - OF_REDIS) <= MOST, walk.stays
        of_identity = [name for name in walk.stays if not name.startswith("fleet.")]
        # The flight of a lookup calls back the group resolver that started it.
        of_identity.remove("identity.group_resolver")
        assert len(of_identity) == len(set(of_identity))
        await groups.close()
        await resolver.close()
    await parts.store.close()
