"""Changes of a group with very many members, on a real slapd and in a server's messages."""

import asyncio
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import trustme

from queuegate_server.identity.resolver import CannotFollow
from queuegate_server.identity.resolvers.ldap import sync_follower
from queuegate_server.identity.resolvers.ldap.sync_messages import SYNC_INFO, SYNC_REQUEST
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.test_malformed_answers import GIVEN
from tests.support.change_sink import Sink, following
from tests.support.fakes.hostile_directory import (
    ENTRY,
    binding,
    element,
    hostile_directory,
    message,
    result,
)
from tests.support.long_work import bounded_steps
from tests.support.servers import ldap_entries as entries
from tests.support.servers.ldap_entries import change, delete, dn, group_dn, rename
from tests.support.servers.slapd import SERVICE, running_slapd

MEMBERS = 100_000
MAX_STEP = 0.05
"""Seconds of processor time. All members in one step take several times as long."""
STATE = b"1.3.6.1.4.1.4203.1.9.1.2"


async def test_a_change_of_a_large_group_delays_nobody(
    ca: trustme.CA, tmp_path: Path, resolver: Build
) -> None:
    large = entries.group("large", *(dn(f"member{number}") for number in range(MEMBERS)))
    sink = Sink()
    with running_slapd(
        tmp_path / "slapd",
        ca,
        "",
        load=entries.standard() + large,
        more_globals="moduleload syncprov\nsortvals member",
        more_database=f'overlay syncprov\nlimits dn.exact="{SERVICE}" size=unlimited\n',
    ) as slapd:
        built = await resolver(slapd, changes="syncrepl", repeat_after=0)
        async with following(built, sink), bounded_steps(MAX_STEP):
            for user in ("bob", "carol"):
                for verb in ("add", "delete"):
                    joins = change(group_dn("large"), f"{verb}: member", f"member: {dn(user)}")
                    await asyncio.to_thread(slapd.modify, joins)
                    await sink.until(user)
            await asyncio.to_thread(slapd.modify, rename(group_dn("large"), "cn=larger"))
            await sink.until_all()
            await asyncio.to_thread(slapd.modify, delete(group_dn("larger")))
            await sink.until_all()
        async with bounded_steps(MAX_STEP):
            await built.close()


def entry(number: int, *members: bytes) -> bytes:
    """Return a group as it is now."""
    state = element(0x30, element(0x0A, b"\x02"), element(4, b"u" * 16))
    attributes = (
        element(0x30, element(4, name), element(0x31, *(element(4, value) for value in values)))
        for name, values in ((b"cn", [b"g"]), (b"member", members))
    )
    return message(
        number,
        ENTRY,
        element(4, group_dn("g").encode()),
        element(0x30, *attributes),
        controls=element(0xA0, element(0x30, element(4, STATE), element(4, state))),
    )


async def test_a_test_of_the_connection_may_wait_behind_changes(
    resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that sends changes works; one that falls silent does not."""
    monkeypatch.setattr(sync_follower, "HEARTBEAT_SECONDS", 0.05)
    is_over, ended = threading.Event(), threading.Event()
    end_of_refresh = element(0x80, SYNC_INFO.encode()), element(0x81, element(0xA1))

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if SYNC_REQUEST.encode() not in request:
            return [result(number)]
        return changes(number)

    def changes(number: int) -> Iterable[bytes]:
        yield message(number, 0x79, *end_of_refresh)
        while not is_over.is_set():
            yield entry(number, dn("bob").encode())
            time.sleep(0.02)
        ended.wait(60)

    with hostile_directory(binding(reply)) as hostile:
        given = GIVEN | {"groups_from": "member_dn"}
        built = await resolver(hostile.url, **given, changes="syncrepl", operation_timeout=1)
        try:
            async with following(built, Sink()) as task:
                await asyncio.sleep(3)
                assert not task.done()
                is_over.set()
                with pytest.raises(CannotFollow, match="did not answer within 1 s"):
                    await task
        finally:
            ended.set()
