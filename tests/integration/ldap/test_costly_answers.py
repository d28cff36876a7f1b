"""Answers that would take the time or the memory of everybody: refused, or read in steps.

The directory runs in threads of its own, so the time of the event loop's thread is that of the
resolver.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.test_malformed_answers import BOB, DN, GIVEN, TEAM
from tests.support.fakes.hostile_directory import (
    DONE,
    ENTRY,
    EXTENDED_RESPONSE,
    REFERENCE,
    binding,
    element,
    entry,
    hostile_directory,
    message,
    page,
    result,
)
from tests.support.fakes.tcp_server import running_tcp
from tests.support.long_work import bounded_steps
from tests.support.resolvers import lookup_failure
from tests.support.servers.slapd import GROUPS, PEOPLE

MAX_MEMORY = 48 << 20
BASE = GROUPS.encode()
HEALTHY = binding(lambda n, _: [entry(n, DN, BOB) + result(n)])


def user(number: int, *attributes: tuple[bytes, Iterable[bytes]]) -> bytes:
    return entry(number, DN, [(b"uid", [b"bob"]), *attributes])


def rdns(count: int) -> bytes:
    return b"a=b," * count + BASE


LONG_LIST = b"".join([element(4)] * 2_000_000)
COSTLY: dict[str, Any] = {
    "a value that is a DN of 300 000 components": lambda n: (
        user(n, (b"memberOf", [TEAM, rdns(300_000)])) + result(n)
    ),
    "a value that is a DN of 3 000 components": lambda n: (
        user(n, (b"memberOf", [rdns(3000)])) + result(n)
    ),
    "a DN of one component with 100 000 values": lambda n: (
        user(n, (b"memberOf", [b"a=b+" * 100_000 + TEAM])) + result(n)
    ),
    "an entry with a DN of 300 000 components": lambda n: (
        entry(n, b"uid=bob," + b"a=b," * 300_000 + PEOPLE.encode(), BOB) + result(n)
    ),
    "two million values": lambda n: (
        message(
            n,
            ENTRY,
            element(4, DN),
            element(0x30, element(0x30, element(4, b"uid"), element(0x31, LONG_LIST))),
        )
        + result(n)
    ),
    "300 000 empty attributes": lambda n: (
        message(
            n,
            ENTRY,
            element(4, DN),
            element(0x30, element(0x30, element(4, b"a"), element(0x31)) * 300_000),
        )
        + result(n)
    ),
    "100 000 attributes": lambda n: (
        entry(n, DN, ((b"a%d" % place, ()) for place in range(100_000))) + result(n)
    ),
    "a value of 20 MB": lambda n: user(n, (b"memberOf", [b"x" * 20_000_000])) + result(n),
    "a name of an attribute of 20 MB": lambda n: user(n, (b"x" * 20_000_000, [])) + result(n),
    "300 000 entries": lambda n: entry(n, b"", []) * 300_000 + result(n),
    "300 000 references": lambda n: message(n, REFERENCE, element(4)) * 300_000 + result(n),
    "a reference to 300 000 servers": lambda n: message(n, REFERENCE, LONG_LIST) + result(n),
    "a text of 20 MB": lambda n: result(n, code=1, text=b"x" * 20_000_000),
    "a referral to 300 000 servers": lambda n: message(
        n, DONE, element(10, b"\n"), element(4), element(4), element(0xA3, LONG_LIST)
    ),
    "300 000 controls": lambda n: result(
        n, controls=element(0xA0, element(0x30, element(4)) * 300_000)
    ),
    "a cookie of 20 MB": lambda n: result(n, controls=page(b"x" * 20_000_000)),
    "an answer of 4 GiB that is announced": lambda n: (
        b"\x30\x84\xff\xff\xff\xff\x02\x01" + bytes([n])
    ),
    "300 000 notices": lambda _: result(0, EXTENDED_RESPONSE, 52) * 300_000,
    "300 000 messages for no request": lambda n: result(n + 1) * 300_000,
}


@pytest.mark.parametrize("answer", COSTLY.values(), ids=COSTLY)
async def test_costly_answer_delays_nobody(resolver: Build, answer: Any) -> None:
    sent = {number: answer(number) for number in (2, 3)}
    with hostile_directory(HEALTHY) as hostile:
        opened = await resolver(hostile.url, **GIVEN, operation_timeout=20)
        assert await opened.resolve("bob") == KnownUser(("analytics",))
        hostile.reply = binding(lambda n, _: [sent[n]] if n in sent else [])
        async with bounded_steps():
            outcome = await opened.resolve("bob")
        assert isinstance(outcome, LookupFailure), outcome
        hostile.reply = HEALTHY
        while isinstance(outcome, LookupFailure):
            outcome = await opened.resolve("bob")
        assert outcome == KnownUser(("analytics",))


async def test_many_long_dns_are_read_in_steps(resolver: Build) -> None:
    """All lookups together, and not each of them, leave time for others."""
    values = [b"cn=%d," % place + rdns(1800) for place in range(10)]
    answers = {number: user(number, (b"memberOf", values)) + result(number) for number in range(70)}
    with hostile_directory(binding(lambda n, _: [answers[n]])) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        async with bounded_steps():
            outcomes = await asyncio.gather(*(opened.resolve("bob") for _ in range(20)))
        assert outcomes == [KnownUser(tuple(map(str, range(10))))] * 20


async def test_a_name_that_no_request_may_state_is_skipped(resolver: Build) -> None:
    values = [b"cn=" + b"x" * 1025 + b"," + BASE, TEAM]
    reply = binding(lambda n, _: [user(n, (b"memberOf", values)) + result(n)])
    with hostile_directory(reply) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        assert await opened.resolve("bob") == KnownUser(("analytics",))
        assert opened.statistics.skipped_names == 1


@pytest.mark.parametrize(("size", "fits"), [(8192, True), (8193, False)])
async def test_the_longest_dn(resolver: Build, size: int, fits: bool) -> None:
    dn = b"cn=a,ou=" + b"x" * (size - len(BASE) - 9) + b"," + BASE
    assert len(dn) == size
    reply = binding(lambda n, _: [user(n, (b"memberOf", [dn])) + result(n)])
    with hostile_directory(reply) as hostile:
        outcome = await (await resolver(hostile.url, **GIVEN)).resolve("bob")
        if fits:
            assert outcome == KnownUser(("a",))
        else:
            assert isinstance(outcome, LookupFailure)
            assert "a DN of 8193 bytes" in outcome.detail
            assert outcome.source_works


@pytest.mark.parametrize(
    ("attributes", "texts"),
    [
        (
            [(b"memberOf", [b"x"] * 100_000)],
            ["too many entries, attributes and values", "max_groups"],
        ),
        (
            [(b"cn;x-%d" % place, [b"x"]) for place in range(1000)],
            [f"the entry '{DN.decode()}' has more than 1000 attributes", "cn;lang-en"],
        ),
    ],
    ids=["values", "attributes"],
)
async def test_one_blown_up_entry_fails_nobody_else(
    resolver: Build, attributes: list[tuple[bytes, list[bytes]]], texts: list[str]
) -> None:
    """It takes a connection from nobody, and opens no circuit breaker of the directory."""

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if b"mallory" in request:
            return [user(number, *attributes) + result(number)]
        return [entry(number, DN, BOB) + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        for _ in range(5):
            blown, known = await asyncio.gather(opened.resolve("mallory"), opened.resolve("bob"))
            assert isinstance(blown, LookupFailure)
            assert [text for text in texts if text not in blown.detail] == []
            assert blown.source_works
            assert known == KnownUser(("analytics",))
        assert hostile.connections == 1


async def test_a_long_reference_is_ignored(resolver: Build) -> None:
    """Entries that refer to other servers must not take a connection from anybody."""

    def reply(number: int, _: bytes) -> Iterable[bytes]:
        reference = message(number, REFERENCE, element(4, b"ldap://127.0.0.1:1/") * 10_000)
        return [reference + entry(number, DN, BOB) + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        assert await opened.resolve("bob") == KnownUser(("analytics",))
        assert hostile.connections == 1


@pytest.mark.parametrize("entries", [0, 1])
async def test_pages_without_an_end(resolver: Build, entries: int) -> None:
    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if b"1.2.840.113556.1.4.319" not in request:
            return [result(number, code=4)]
        found = b"".join(entry(number, b"cn=a," + BASE, []) for _ in range(entries))
        return [found + result(number, controls=page(b"more"))]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN)
        async with asyncio.timeout(60):
            outcome = await opened.resolve("bob")
        assert isinstance(outcome, LookupFailure)
        assert "pages" in outcome.detail or "more than 4 entries" in outcome.detail
        # Once more on another connection.
        assert hostile.searches <= 2 * 120
        listing = MemberListing(["analytics"])
        async with asyncio.timeout(60):
            await opened.members(listing)
        assert listing.groups["analytics"].missing


async def test_ranges_without_an_end(resolver: Build) -> None:
    def reply(number: int, request: bytes) -> Iterable[bytes]:
        start = 0
        if b"memberOf;range=" in request:
            start = int(request.partition(b"memberOf;range=")[2].partition(b"-")[0])
        name = b"memberOf;range=%d-%d" % (start, start)
        return [user(number, (name, [b"cn=%d," % start + BASE])) + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        failure = await lookup_failure(await resolver(hostile.url, **GIVEN), "bob")
        assert "too many ranges" in failure
        assert hostile.searches <= 2 * 120


@pytest.mark.parametrize(
    "reply",
    [
        result(1, EXTENDED_RESPONSE, text=b"x" * 65_000),
        b"\x30\x84\x00\x00\xff\xf0\x02\x01\x01\x78" + b"\x84" * 65_000,
        message(1, EXTENDED_RESPONSE, element(10, b"\0"), element(4), element(4), LONG_LIST),
        b"\x30" + b"\x84" * 200_000,
        b"\x30\x84\x00\x00\xff\xf0\x02\x01\x01\x78" + b"\x30\x80" * 32_000,
    ],
    ids=["a long text", "no end", "many elements", "lengths only", "nested"],
)
@pytest.mark.parametrize("size", [1, 7])
async def test_an_answer_before_tls_in_tiny_pieces(
    resolver: Build, reply: bytes, size: int
) -> None:
    async def pieces(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for place in range(0, 20_000 * size, size):
            writer.write(reply[place : place + size])
            if place % 100 == 0:
                await writer.drain()
                await asyncio.sleep(0)

    async with running_tcp(pieces) as port:
        opened = await resolver(
            f"ldap://127.0.0.1:{port}", **(GIVEN | {"start_tls": True}), connect_timeout=3
        )
        async with bounded_steps():
            outcome = await opened.resolve("bob")
    assert isinstance(outcome, LookupFailure)


async def test_twenty_thousand_users_are_listed_in_steps(resolver: Build) -> None:
    count = 20_000
    users = b"".join(
        entry(2, b"uid=u%d,%b" % (place, PEOPLE.encode()), [(b"uid", [b"u%d" % place])])
        for place in range(count)
    )
    with hostile_directory(binding(lambda n, _: [users, result(n)])) as hostile:
        opened = await resolver(hostile.url, **GIVEN, operation_timeout=60)
        async with bounded_steps():
            names = (await opened.all_users(200_000)).names
        assert len(names) == count


async def test_the_log_is_not_flooded(resolver: Build, caplog: pytest.LogCaptureFixture) -> None:
    """All are counted, and some are logged."""
    nameless = [b"no dn %d" % place for place in range(4000)]

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if b"member=" not in request and b"memberOf" in request:
            return [user(number, (b"memberOf", nameless)) + result(number)]
        outside = b"".join(entry(number, b"cn=%d,dc=x" % place, []) for place in range(4000))
        return [outside + result(number)]

    with hostile_directory(binding(reply)) as hostile:
        opened = await resolver(hostile.url, **GIVEN, nested="walk", more_groups=[{}])
        begin = time.monotonic()
        assert await opened.resolve("bob") == KnownUser(())
        seconds = time.monotonic() - begin
        assert opened.statistics.skipped_names == 4000
        assert opened.statistics.outside_base == 4000
        lines = caplog.text.count("no readable name") + caplog.text.count("outside of group_base")
        assert 0 < lines <= 21 + seconds
