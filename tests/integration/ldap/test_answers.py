"""Rows 17 to 31 of the failure matrix: answers of servers and names of users.

Rows 17, 18, 19, 20, 22 and 23 are in test_sources.py, row 26 in test_active_directory.py.
"""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from tests.integration.ldap.conftest import Build
from tests.support.fakes.ldap_server import Answer, FakeDirectory, Search, fake_directory
from tests.support.fakes.tcp_server import running_tcp
from tests.support.resolvers import lookup_failure
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd

BOB = KnownUser(("analytics",))
PLAIN: dict[str, Any] = {"start_tls": False, "allow_plaintext_bind": True}
BOB_ENTRY = (
    f"uid=bob,{PEOPLE}",
    {"uid": [b"bob"], "memberOf": [b"cn=analytics," + GROUPS.encode()]},
)
TEAM = (f"cn=analytics,{GROUPS}", {"cn": [b"analytics"]})


def healthy(search: Search) -> Answer:
    return Answer(
        [BOB_ENTRY if "uid=bob)" in search.filter and "member=" not in search.filter else TEAM]
    )


LISTED = {"groups_from": "member_uid", "member_attribute": "memberUid"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"groups_from": "member_of"}, ["memberOf"]),
        ({"groups_from": "member_of", "primary_group": "user_name"}, ["memberOf"]),
        ({**LISTED, "more_groups": [{"groups_from": "member_of"}]}, ["memberOf"]),
        (
            {
                "groups_from": "member_of",
                "member_of_attribute": "uid",
                "more_groups": [
                    {"groups_from": "member_of", "member_of_attribute": "isMemberOf"},
                    {"groups_from": "member_of"},
                ],
            },
            ["isMemberOf", "memberOf"],
        ),
        (LISTED, []),
    ],
)
async def test_row_21_no_user_has_member_of(
    resolver: Build, caplog: pytest.LogCaptureFixture, given: dict[str, Any], missing: list[str]
) -> None:
    bare = Answer([(BOB_ENTRY[0], {"uid": [b"bob"]})])
    async with fake_directory(
        lambda search: bare if "uid=bob)" in search.filter else Answer([])
    ) as fake:
        opened = await resolver(fake.url, **PLAIN, **given)
        for _ in range(30):
            assert isinstance(await opened.resolve("bob"), KnownUser)
        found = re.findall("none of 20 users has a value of ([^;]*);", caplog.text)
        assert found == missing


@pytest.mark.parametrize(
    "value",
    [b"", b"no dn", b"cn=", b"=x", b"\xff\xfe", b"cn=\xff," + GROUPS.encode(), b"cn=a,,dc=b"],
)
@pytest.mark.parametrize("given", [{"group_base": None}, {}])
async def test_row_22_value_that_is_not_a_dn_is_skipped_and_counted(
    resolver: Build, value: bytes, given: dict[str, Any]
) -> None:
    values = [value, b"cn=analytics," + GROUPS.encode()]
    answer = Answer([(BOB_ENTRY[0], {"uid": [b"bob"], "memberOf": values})])
    async with fake_directory(lambda _: answer) as fake:
        opened = await resolver(fake.url, **PLAIN, groups_from="member_of", **given)
        assert await opened.resolve("bob") == BOB
        # Without a base `cn=` is a group without a name; otherwise it lies outside.
        outside = value == b"cn=" and not given
        assert opened.statistics.skipped_names == (0 if outside else 1)


@pytest.mark.parametrize("code", [1, 3, 4, 11, 50, 51, 52, 53, 80])
async def test_row_24_failed_nested_search_fails_the_look_up(resolver: Build, code: int) -> None:
    def answer(search: Search) -> Answer:
        if "cn=analytics" in search.filter:
            return Answer([TEAM], code=code, text="busy")
        return healthy(search)

    async with fake_directory(answer) as fake:
        opened = await resolver(fake.url, **PLAIN, nested="walk")
        assert isinstance(await opened.resolve("bob"), LookupFailure)
        fake.answer = healthy
        assert await opened.resolve("bob") == BOB


def many_groups(count: int) -> str:
    member = entries.dn("bob")
    groups = "".join(entries.group(f"g{number}", member) for number in range(count))
    return entries.base() + entries.person("bob") + groups


@pytest.fixture
def big_directory(ca: trustme.CA, tmp_path: Path) -> Any:
    return lambda ldif, more: running_slapd(tmp_path / "big", ca, "", more_database=more, load=ldif)


async def test_row_25_ten_thousand_groups(resolver: Build, big_directory: Any) -> None:
    unlimited = f'limits dn.exact="{SERVICE}" size.soft=500 size.hard=500 size.prtotal=unlimited'
    with big_directory(many_groups(10_000), unlimited) as slapd:
        whole = await resolver(slapd, max_groups=10_000, operation_timeout=30)
        outcome = await whole.resolve("bob")
        assert isinstance(outcome, KnownUser), outcome
        assert len(set(outcome.groups)) == 10_000
        # More than the bound is a failure and not the first five thousand.
        failure = await lookup_failure(await resolver(slapd, operation_timeout=30), "bob")
        assert "more than 5000" in failure
        unpaged = await (await resolver(slapd, page_size=0, max_groups=10_000)).resolve("bob")
        assert isinstance(unpaged, LookupFailure)


async def test_row_25_size_limit_that_also_bounds_pages_is_a_failure(
    resolver: Build, big_directory: Any
) -> None:
    with big_directory(many_groups(700), "") as slapd:
        failure = await lookup_failure(await resolver(slapd), "bob", source_works=True)
        assert "even with a page size" in failure
        assert "size.prtotal=unlimited" in failure


async def test_row_25_max_groups_below_the_page_size(resolver: Build, big_directory: Any) -> None:
    limits = "limits * size.soft=100 size.hard=100 size.prtotal=unlimited"
    with big_directory(many_groups(150), limits) as slapd:
        for given in ({"max_groups": 300}, {"max_groups": 300, "page_size": 100}, {}):
            outcome = await (await resolver(slapd, **given)).resolve("bob")
            assert isinstance(outcome, KnownUser), outcome
            assert len(set(outcome.groups)) == 150
        # The limit that was met is named, and not the other one.
        unpaged = await (await resolver(slapd, max_groups=300, page_size=0)).resolve("bob")
        assert isinstance(unpaged, LookupFailure)
        assert "the server's size limit: Size limit exceeded (4), after 100" in unpaged.detail
        assert "set page_size, or raise the size limit" in unpaged.detail
        assert "more than" not in unpaged.detail
        assert unpaged.source_works
        bounded = await (await resolver(slapd, max_groups=120)).resolve("bob")
        assert isinstance(bounded, LookupFailure)
        assert "more than 120" in bounded.detail
        assert "raise max_groups" in bounded.detail


async def test_row_27_referrals_are_not_followed(resolver: Build, own_directory: Slapd) -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)

    asked: list[asyncio.StreamWriter] = []
    async with running_tcp(silent) as port:
        for base in (PEOPLE, GROUPS):
            own_directory.add(
                entries.entry(
                    f"ou=elsewhere,{base}",
                    ("objectClass", "referral"),
                    ("objectClass", "extensibleObject"),
                    ("ou", "elsewhere"),
                    ("ref", f"ldap://127.0.0.1:{port}/{base}"),
                )
            )
        for given in ({}, {"groups_from": "member_of"}):
            start = time.monotonic()
            assert await (await resolver(own_directory, **given)).resolve("bob") == BOB
            assert time.monotonic() - start < 25
    assert asked == []


@pytest.mark.parametrize("code", [51, 52, 80, 3])
async def test_row_28_busy_server_is_replaced_by_another_one(
    resolver: Build, directory: Slapd, code: int
) -> None:
    async with fake_directory(lambda _: Answer(code=code)) as fake:
        urls = [fake.url, directory.url]
        opened = await resolver(directory, **PLAIN, urls=urls, retry_after=60)
        for _ in range(5):
            assert await opened.resolve("bob") == BOB
        # After three failures in a row it is left alone.
        assert len(fake.searches) == 3


@pytest.mark.parametrize("code", [50, 1, 53, 12])
async def test_row_29_refusal_is_not_repeated(resolver: Build, directory: Slapd, code: int) -> None:
    async with fake_directory(lambda _: Answer(code=code, text="not for you")) as fake:
        opened = await resolver(directory, **PLAIN, urls=[fake.url, directory.url])
        assert "not for you" in await lookup_failure(opened, "bob")
        assert len(fake.searches) == 1


async def test_row_30_a_thousand_users_at_once(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory, max_in_flight=8, operation_timeout=30)
    names = ["alice", "bob", "carol", "nobody"] * 250
    outcomes = await asyncio.gather(*(opened.resolve(name) for name in names))
    for name, outcome in zip(names, outcomes, strict=True):
        assert isinstance(outcome, NoSuchUser if name == "nobody" else KnownUser), outcome
        assert name != "bob" or outcome == BOB


async def test_row_30_requests_beyond_the_queue_fail_immediately(resolver: Build) -> None:
    def silent(_: Search) -> Answer:
        return Answer(silent=True)

    async with fake_directory(silent) as fake:
        opened = await resolver(
            fake.url, **PLAIN, max_in_flight=4, max_queued=6, operation_timeout=60
        )
        tasks = [asyncio.create_task(opened.resolve("bob")) for _ in range(30)]
        # Long before the time of those that wait for the server is over.
        async with asyncio.timeout(50):
            while len(fake.searches) < 4 or sum(task.done() for task in tasks) < 20:
                await asyncio.sleep(0.01)
        done = [task for task in tasks if task.done()]
        assert len(done) == 20
        for outcome in (task.result() for task in done):
            assert isinstance(outcome, LookupFailure)
            assert "too many requests" in outcome.detail
            assert outcome.too_many  # so that the circuit breaker stays closed
        assert len(fake.searches) == 4
        await opened.close()
        await asyncio.wait(tasks)


@pytest.mark.parametrize(
    "user",
    ["a\0b", "\0", "\ud800", "alice\n", "a" * 257, "x" * 10_000, "\x7f", "\ufdd0", "\U000e0fff"],
)
async def test_row_31_impossible_names_are_not_looked_up(
    resolver: Build, directory: Slapd, user: str
) -> None:
    opened = await resolver(directory)
    assert isinstance(await opened.resolve(user), NoSuchUser)
    assert (directory.url, "user search") not in opened.statistics.steps


@pytest.mark.parametrize(
    "user",
    ["*", "*)(uid=*", "bob)(|(uid=*", "\\2a", "(", ")", "&", "|", "bob\\", "=", "%s", "{user}"],
)
async def test_row_31_names_are_escaped(resolver: Build, directory: Slapd, user: str) -> None:
    opened = await resolver(directory)
    assert isinstance(await opened.resolve(user), NoSuchUser)
    assert opened.statistics.other_spelling == 0


@pytest.mark.parametrize(
    "reply",
    [
        b"\x30\x03\x02\x01",
        b"\x30\x84\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x30\x00",
        b"\0" * 100,
        # A notice of disconnection.
        bytes.fromhex(
            "3024020100781f0a0134040004008a16312e332e362e312e342e312e313436362e3230303336"
        ),
    ],
)
async def test_malformed_answers_are_failures(resolver: Build, reply: bytes) -> None:
    def never(_: Search) -> Answer:
        raise AssertionError

    fake: FakeDirectory
    async with fake_directory(never) as fake:
        fake.raw_reply = reply
        opened = await resolver(fake.url, **PLAIN, operation_timeout=0.3)
        start = time.monotonic()
        outcome: Outcome = await opened.resolve("bob")
        assert isinstance(outcome, LookupFailure)
        assert time.monotonic() - start < 25
