"""Rows 1 to 8 of the failure matrix: servers that are down, silent or cut off."""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import LookupFailure
from queuegate_server.identity.resolvers.ldap.bind import Connector
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl, parse_url
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.pool import ServerConnection, ServerPool
from queuegate_server.runtime.threads import AbandonableThreadPool
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import BOB, timed, until_asked
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.ldap_server import Answer, fake_directory
from tests.support.fakes.tcp_proxy import Interruption, proxy_to
from tests.support.servers.free_ports import free_port
from tests.support.servers.slapd import Slapd

FAST = {"connect_timeout": 0.4, "operation_timeout": 0.4, "lookup_timeout": 2}
PATIENT = {"connect_timeout": 4, "operation_timeout": 4, "lookup_timeout": 20}
HANGS = 25
"""Seconds that only an unbounded lookup takes, even on a busy machine."""
MANY = [f"nobody{n}" for n in range(50)]


@contextmanager
def silent_port() -> Iterator[int]:
    """A port whose connections the kernel accepts and nobody answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


@contextmanager
def dropping_port() -> Iterator[int]:
    """A port that answers no SYN: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


async def test_rows_1_and_2_all_servers_down(
    own_directory: Slapd, options: Callable[..., LdapOptions]
) -> None:
    clock = ManualClock()
    given = options(own_directory, retry_after=5)
    resolver = LdapResolver(given)
    shared = GuardedResolver("corp", resolver, given)
    shared.breaker.max_failures = 1000
    users = GroupResolver(shared, GroupCache(CacheOptions(), clock, clock))
    await resolver.open()
    assert (await users.resolve("bob")).entry.outcome == BOB
    own_directory.kill()
    clock.advance(400)
    stale = await users.resolve("bob")
    assert (stale.entry.outcome, stale.stale) == (BOB, True)
    await until_fault(resolver)
    dialled = dials(resolver, own_directory.url)
    start = time.monotonic()
    for user in MANY:
        answer = await users.resolve(user)
        assert isinstance(answer.entry.outcome, LookupFailure)
    # None of them dials: the server is known to be down, until it is tried again.
    assert dials(resolver, own_directory.url) <= dialled + (time.monotonic() - start) // 4
    # The user that is known still is, and was not overwritten by a failure.
    clock.advance(1000)
    again = await users.resolve("bob")
    assert (again.entry.outcome, again.stale) == (BOB, True)
    # Much later it is too old to be used.
    clock.advance(3600)
    assert isinstance((await users.resolve("bob")).entry.outcome, LookupFailure)
    await users.close()
    await resolver.close()


def dials(resolver: LdapResolver, url: str) -> int:
    count = resolver.statistics.steps[url, "connect"]
    return count.succeeded + count.failed


async def until_fault(resolver: LdapResolver) -> None:
    while not isinstance(await resolver.resolve("bob"), LookupFailure):
        await asyncio.sleep(0.01)


async def test_row_3_refused_port_is_skipped_immediately(resolver: Build, directory: Slapd) -> None:
    dead = f"ldap://127.0.0.1:{free_port()}"
    opened = await resolver(directory, urls=[dead, directory.url], connect_timeout=30)
    outcome, seconds = await timed(opened)
    assert outcome == BOB
    assert seconds < HANGS


@pytest.mark.parametrize("port", [silent_port, dropping_port])
@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_rows_4_and_5_silent_server_costs_one_deadline_once(
    resolver: Build, directory: Slapd, port: Any, scheme: str
) -> None:
    with port() as number:
        silent = f"{scheme}://127.0.0.1:{number}"
        opened = await resolver(
            directory, urls=[silent, directory.url], connect_timeout=4, retry_after=60
        )
        outcome, seconds = await timed(opened)
        assert outcome == BOB
        assert 3.9 < seconds < HANGS
        for _ in range(5):
            assert await opened.resolve("bob") == BOB
        assert dials(opened, silent) == 1


async def test_row_5_single_silent_server_fails_within_the_deadline(resolver: Build) -> None:
    with silent_port() as number:
        opened = await resolver(f"ldaps://127.0.0.1:{number}", **FAST)
        outcome, seconds = await timed(opened)
        assert isinstance(outcome, LookupFailure)
        assert "(tls)" in outcome.detail
        assert seconds < HANGS


@pytest.mark.parametrize("interruption", list(Interruption))
@pytest.mark.parametrize("way", ["plain", "starttls", "ldaps"])
async def test_rows_6_and_7_every_cut_point_ends_at_the_deadline(
    resolver: Build, directory: Slapd, way: str, interruption: Interruption
) -> None:
    more: dict[str, Any] = {**FAST}
    if way == "plain":
        more |= {"start_tls": False, "allow_plaintext_bind": True}
    target = directory.tls_port if way == "ldaps" else directory.port
    async with proxy_to(target) as proxy:
        url = proxy.tls_url if way == "ldaps" else proxy.url
        patient = more | {"connect_timeout": 30, "operation_timeout": 30, "lookup_timeout": 60}
        assert await (await resolver(url, **patient)).resolve("bob") == BOB
        total = proxy.received
    # Signatures differ in length by some bytes from one handshake to the next.
    last = total - (1 if way == "plain" else 12)
    points = sorted({*range(0, last, max(1, total // 12)), 1, 5, 15, last - 2, last})

    async def cut_at(point: int) -> None:
        async with proxy_to(target) as proxy:
            proxy.pass_bytes, proxy.interruption = point, interruption
            url = proxy.tls_url if way == "ldaps" else proxy.url
            opened = await resolver(url, **more)
            outcome, seconds = await timed(opened)
            assert isinstance(outcome, LookupFailure), (point, outcome)
            assert seconds < HANGS, (point, seconds, outcome)
            await opened.close()

    await asyncio.gather(*map(cut_at, points))


async def test_row_8_hang_in_mid_session_moves_to_the_other_server(
    resolver: Build, own_directory: Slapd, directory: Slapd
) -> None:
    opened = await resolver(
        directory, **PATIENT, urls=[own_directory.tls_url, directory.tls_url], max_in_flight=8
    )
    assert await opened.resolve("bob") == BOB
    own_directory.freeze()
    found = await asyncio.gather(*(timed(opened) for _ in range(20)))
    assert {outcome for outcome, _ in found} == {BOB}
    assert max(seconds for _, seconds in found) < HANGS
    # Soon nobody waits for the hanging server any more.
    end = time.monotonic() + HANGS
    while (await timed(opened))[1] > PATIENT["connect_timeout"] / 2:
        assert time.monotonic() < end
    # Back to the first one when it answers again.
    own_directory.thaw()
    await until_asked(opened, own_directory.tls_url)


async def test_row_8_server_that_takes_binds_and_no_searches_is_left_alone(
    resolver: Build, directory: Slapd
) -> None:
    async with fake_directory(lambda _: Answer(silent=True)) as fake:
        opened = await resolver(
            directory,
            urls=[fake.url, directory.url],
            start_tls=False,
            allow_plaintext_bind=True,
            operation_timeout=3,
            retry_after=60,
        )
        for _ in range(3):
            outcome, seconds = await timed(opened)
            assert outcome == BOB
            assert seconds > 2.9
        for _ in range(5):
            assert await opened.resolve("bob") == BOB
        assert len(fake.searches) == 3


async def test_row_10_lookups_lost_with_one_connection_are_one_failure(
    resolver: Build, directory: Slapd
) -> None:
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(proxy.url, retry_after=30, operation_timeout=30)
        assert await opened.resolve("bob") == BOB
        assert opened.pool
        connection = await opened.pool.servers[0].connection()
        proxy.delay = 10
        pending = [asyncio.create_task(opened.resolve("bob")) for _ in range(20)]
        while connection.in_flight < 20:
            await asyncio.sleep(0.01)
        proxy.delay = 0
        proxy.drop()
        assert set(await asyncio.gather(*pending)) == {BOB}
        assert opened.statistics.retried == 20


async def test_change_of_servers_by_dns_ends_no_look_up(resolver: Build, directory: Slapd) -> None:
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(proxy.url, operation_timeout=30)
        assert await opened.resolve("bob") == BOB
        assert opened.pool
        connection = await opened.pool.servers[0].connection()
        proxy.delay = 30
        pending = asyncio.create_task(opened.resolve("bob"))
        while not connection.in_flight:
            await asyncio.sleep(0.01)
        await opened.pool.use([parse_url(directory.url)])
        assert await pending == BOB


async def test_row_10_second_server_dies_under_the_only_look_up(
    resolver: Build, directory: Slapd
) -> None:
    dead = f"ldap://127.0.0.1:{free_port()}"
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(
            proxy.url, urls=[dead, proxy.url], retry_after=60, operation_timeout=30
        )
        assert await opened.resolve("bob") == BOB
        assert opened.pool
        connection = await opened.pool.servers[1].connection()
        proxy.delay = 30
        pending = asyncio.create_task(timed(opened))
        while not connection.in_flight:
            await asyncio.sleep(0.01)
        proxy.delay = 0
        proxy.drop()
        outcome, seconds = await pending
        assert outcome == BOB
        assert seconds < HANGS


async def test_waiters_learn_that_a_server_is_left_alone(
    directory: Slapd, options: Callable[..., LdapOptions]
) -> None:
    connector = Connector(options(directory), AbandonableThreadPool(1, "ldap"), lambda _: None)
    connection = await connector.connect(parse_url(directory.url))

    class HangingConnector(Connector):
        async def connect(self, url: ServerUrl) -> LdapConnection:
            await asyncio.Event().wait()
            return await super().connect(url)

    hanging = HangingConnector(options(directory), AbandonableThreadPool(1, "ldap"), lambda _: None)
    pool = ServerPool(hanging, LdapStatistics())
    server = ServerConnection(parse_url(directory.url), pool, is_preferred=True)
    server.start()
    waiting = asyncio.create_task(server.connection())
    await asyncio.sleep(0)
    for _ in range(3):
        server.note_failure(connection, ServerFault("busy"))
    with pytest.raises(ServerFault, match="busy"):
        async with asyncio.timeout(HANGS):
            await waiting
    await server.close()
    connection.close()


async def test_pauses_double_while_another_server_answers(
    options: Callable[..., LdapOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(random, "uniform", lambda _low, _high: 1.0)
    given = options("ldap://127.0.0.1:1", retry_after=1, fail_back_after=5)
    servers = ServerPool(
        Connector(given, AbandonableThreadPool(1, "ldap"), lambda _: None), LdapStatistics()
    )
    server = ServerConnection(parse_url("ldap://127.0.0.1:1"), servers, is_preferred=True)
    another: Any = SimpleNamespace(is_connected=True)
    servers.servers = (server, another)
    # None has failed if requests failed on a connection that was there.
    for server._failed_attempts in range(6):
        await server._pause(ServerFault("down"))
    assert pauses == [1, 1, 2, 4, 5, 5]
