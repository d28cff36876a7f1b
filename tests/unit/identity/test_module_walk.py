"""The path of a cold lookup to the driver.

Each module asks the next one, and none is entered twice, except that the flight of a lookup calls
back the group resolver that started it. All modules, there and back, are counted by
`tests/contract/test_call_path.py`.
"""

from collections.abc import AsyncIterator

import pytest

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.ldap_server import fake_directory
from tests.support.fakes.small_directory import answer, options
from tests.support.module_walk import ModuleWalk

START = ["identity.group_resolver", "identity.cache", "runtime.single_flight"]
MOST = 9


@pytest.fixture
async def resolver() -> AsyncIterator[LdapResolver]:
    async with fake_directory(answer) as directory:
        given = LdapOptions.model_validate(options(directory.url))
        resolver = LdapResolver(given)
        await resolver.open()
        assert resolver.pool is not None
        await resolver.pool.connection()
        yield resolver
        await resolver.close()


async def test_a_cold_lookup_enters_few_modules_and_none_twice(
    resolver: LdapResolver, clock: ManualClock
) -> None:
    guarded = GuardedResolver("corp", resolver, ResolverOptions(), clock=clock)
    groups = GroupResolver(guarded, GroupCache(CacheOptions(), clock, clock))
    walk = ModuleWalk("ldap")
    resolution = await walk.run(groups.resolve("sue"))
    assert resolution.entry.outcome == KnownUser(("staff",))
    assert walk.stays[:4] == [*START, START[0]]
    rest = walk.stays[4:]
    assert len(rest) == len(set(rest) - set(START)) <= MOST, walk.stays
    assert walk.stays[-1] == "identity.resolvers.ldap.ldap_connection"
    await groups.close()


async def test_a_known_answer_passes_two_modules(
    resolver: LdapResolver, clock: ManualClock
) -> None:
    guarded = GuardedResolver("corp", resolver, ResolverOptions(), clock=clock)
    groups = GroupResolver(guarded, GroupCache(CacheOptions(), clock, clock))
    await groups.resolve("sue")
    walk = ModuleWalk("ldap")
    assert (await walk.run(groups.resolve("sue"))).cached
    assert {*walk.stays} == {"identity.group_resolver", "identity.cache"}
    await groups.close()
