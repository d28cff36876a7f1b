"""Rows 9 to 12 of the failure matrix: connections that end, break or grow old."""

import asyncio
import errno
import itertools
import os
import socket
import time

import pytest

from queuegate_server.identity.resolver import KnownUser, LookupFailure, Outcome
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import BOB, timed, until_asked, until_found
from tests.support.fakes.loop import wait_until
from tests.support.fakes.tcp_proxy import proxy_to
from tests.support.resolvers import lookup_failure
from tests.support.servers.slapd import Slapd

FAST = {"connect_timeout": 5, "operation_timeout": 2, "lookup_timeout": 60}


async def test_row_9_restart_while_idle_is_not_noticed(
    resolver: Build, own_directory: Slapd
) -> None:
    opened = await resolver(own_directory, retry_after=0.05)
    assert await opened.resolve("bob") == BOB
    own_directory.kill()
    own_directory.start()
    # The keeper may have met a closed door; then it tries again soon.
    await until_found(opened)
    binds = opened.statistics.steps[own_directory.url, "bind"].succeeded
    assert binds == 2


async def asked(opened: LdapResolver, count: int) -> list[asyncio.Task[tuple[Outcome, float]]]:
    """Return lookups that wait for an answer of the first server, which hangs."""
    assert opened.pool
    connection = await opened.pool.servers[0].connection()
    pending = [asyncio.create_task(timed(opened)) for _ in range(count)]
    await wait_until(lambda: connection.in_flight == count)
    return pending


async def test_row_10_killed_with_requests_in_flight(
    resolver: Build, own_directory: Slapd, directory: Slapd
) -> None:
    urls = [own_directory.url, directory.url]
    opened = await resolver(directory, urls=urls, operation_timeout=30)
    assert await opened.resolve("bob") == BOB
    own_directory.freeze()
    pending = await asked(opened, 30)
    start = time.monotonic()
    own_directory.kill()
    found = [outcome for outcome, _ in await asyncio.gather(*pending)]
    assert set(found) == {BOB}
    assert time.monotonic() - start < 25
    assert opened.statistics.retried == 30


async def test_row_10_without_another_server_lookups_fail_immediately(
    resolver: Build, own_directory: Slapd
) -> None:
    opened = await resolver(own_directory, operation_timeout=30)
    assert await opened.resolve("bob") == BOB
    own_directory.freeze()
    pending = await asked(opened, 30)
    own_directory.kill()
    found = await asyncio.gather(*pending)
    assert all(isinstance(outcome, LookupFailure) for outcome, _ in found)
    assert max(seconds for _, seconds in found) < 25
    own_directory.start()
    await until_found(opened)


async def test_row_11_idle_connection_that_the_server_closes_is_replaced(
    resolver: Build, directory: Slapd
) -> None:
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(proxy.url)
        for number in itertools.count(1):
            assert await opened.resolve("bob") == BOB
            assert proxy.accepted == number
            if number == 4:
                break
            proxy.drop()
            while proxy.accepted == number:
                await asyncio.sleep(0.005)


async def test_row_11_connections_are_replaced_when_they_are_old(
    resolver: Build, directory: Slapd
) -> None:
    opened = await resolver(directory, max_age=0.2)
    assert await opened.resolve("bob") == BOB
    while opened.statistics.steps[directory.url, "bind"].succeeded < 4:
        assert await opened.resolve("bob") == BOB
        await asyncio.sleep(0.005)
    assert opened.statistics.retried == 0


async def test_row_11_a_renewal_without_file_descriptors_is_tried_again(
    resolver: Build, directory: Slapd, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = await resolver(directory, max_age=0.2, retry_after=0.05)
    assert await opened.resolve("bob") == BOB
    refused = 0

    def refuse() -> None:
        nonlocal refused
        refused += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    assert opened.pool
    binds = opened.statistics.steps[directory.url, "bind"]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socketpair", refuse)
        await wait_until(lambda: refused >= 2)
        server = opened.pool.servers[0]
        (await server.connection()).close("broken, too")
        failure = await lookup_failure(opened, "bob")
        assert "this machine refused a connection: Too many open files" in failure
    await until_found(opened)
    renewed = binds.succeeded
    await wait_until(lambda: binds.succeeded > renewed)


async def test_row_11_unused_connection_to_the_second_server_is_closed(
    resolver: Build, own_directory: Slapd, directory: Slapd
) -> None:
    async with proxy_to(directory.port) as second:
        urls = [own_directory.url, second.url]
        opened = await resolver(directory, urls=urls, idle_timeout=0.2, fail_back_after=0.1)
        assert await opened.resolve("bob") == BOB
        assert second.accepted == 0
        own_directory.kill()
        assert await opened.resolve("bob") == BOB
        assert second.accepted == 1
        own_directory.start()
        await until_asked(opened, own_directory.url)
        assert opened.pool
        server = opened.pool.servers[1]
        while server.is_connected:
            await asyncio.sleep(0.02)


async def test_row_12_half_open_connection_is_found_by_a_test_request(
    resolver: Build, directory: Slapd
) -> None:
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(proxy.url, **FAST, keepalive_interval=0.2)
        assert await opened.resolve("bob") == BOB
        # From here on the line is dead, without a word, and only a new one works.
        proxy.pass_bytes = 0
        while opened.statistics.steps[proxy.url, "bind"].succeeded < 2:
            if proxy.accepted > 1:
                proxy.pass_bytes = None
            await asyncio.sleep(0.02)
        assert await opened.resolve("bob") == BOB
        assert opened.statistics.retried == 0


async def test_slow_server_within_the_limit_is_awaited(resolver: Build, directory: Slapd) -> None:
    async with proxy_to(directory.port) as proxy:
        proxy.delay = 0.05
        opened = await resolver(proxy.url)
        outcome, seconds = await timed(opened)
        assert outcome == BOB
        assert seconds > 0.2
        proxy.delay, proxy.one_by_one = 0, True
        assert await opened.resolve("alice") == KnownUser(("analytics", "Ops"))


async def test_row_12_connection_is_tested_after_a_suspend(
    resolver: Build, directory: Slapd
) -> None:
    async with proxy_to(directory.port) as proxy:
        opened = await resolver(proxy.url, **FAST)
        assert await opened.resolve("bob") == BOB
        assert opened.pool
        connection = await opened.pool.servers[0].connection()
        connection.heard_at -= 3600
        proxy.pass_bytes = 0
        lookup = asyncio.create_task(opened.resolve("bob"))
        await wait_until(lambda: connection.lost is not None)
        proxy.pass_bytes = None
        assert await lookup == BOB
        assert opened.statistics.retried == 0
