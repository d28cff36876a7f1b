"""Changes of a group with very many members, on a real slapd and in a server's messages."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolver import CannotFollow
from queuegate_server.identity.resolvers.ldap import sync_follower
from queuegate_server.identity.resolvers.ldap.sync_changes import GroupEntries
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
        async with following(built, sink), bounded_steps():
            for user in ("bob", "carol"):
                for verb in ("add", "delete"):
                    joins = change(group_dn("large"), f"{verb}: member", f"member: {dn(user)}")
                    await asyncio.to_thread(slapd.modify, joins)
                    await sink.until(user)
            await asyncio.to_thread(slapd.modify, rename(group_dn("large"), "cn=larger"))
            await sink.until_all()
            await asyncio.to_thread(slapd.modify, delete(group_dn("larger")))
            await sink.until_all()
        async with bounded_steps():
            await built.close()


def changed_entry(number: int, attributes: Iterable[tuple[bytes, Iterable[bytes]]]) -> bytes:
    """Return a group as it is now."""
    state = element(0x30, element(0x0A, b"\x02"), element(4, b"u" * 16))
    shown = (
        element(0x30, element(4, name), element(0x31, *(element(4, value) for value in values)))
        for name, values in attributes
    )
    return message(
        number,
        ENTRY,
        element(4, group_dn("g").encode()),
        element(0x30, *shown),
        controls=element(0xA0, element(0x30, element(4, STATE), element(4, state))),
    )


def entry(number: int, *members: bytes) -> bytes:
    """Return a group with these members."""
    return changed_entry(number, [(b"cn", [b"g"]), (b"member", members)])


class CountingSink(Sink):
    """Counts how often the follower has nothing to report, as a test of the connection shows."""

    tests = 0

    def reached(self, position: bytes | None = None) -> None:
        self.tests += position is None
        super().reached(position)


END_OF_REFRESH = element(0x80, SYNC_INFO.encode()), element(0x81, element(0xA1))
FOLLOW: dict[str, Any] = GIVEN | {
    "groups_from": "member_dn",
    "changes": "syncrepl",
    "repeat_after": 0,
}


async def test_a_test_of_the_connection_may_wait_behind_changes(
    resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that sends changes works; one that answers only earlier tests does not."""
    monkeypatch.setattr(sync_follower, "HEARTBEAT_SECONDS", 0.05)
    is_over = threading.Event()
    followed: list[int] = []
    tests = 0

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        nonlocal tests
        if SYNC_REQUEST.encode() in request:
            followed.append(number)
            yield message(number, 0x79, *END_OF_REFRESH)
            return
        if followed and element(4, b"1.1") in request:
            tests += 1
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                if not is_over.is_set():
                    yield entry(followed[0], dn("bob").encode())
                time.sleep(0.02)
        yield result(number)

    sink = CountingSink()
    with hostile_directory(binding(reply)) as hostile:
        built = await resolver(hostile.url, **FOLLOW, operation_timeout=1)
        async with following(built, sink) as task:
            async with asyncio.timeout(60):
                while tests < 3:  # the third is sent once two have timed out
                    assert not task.done()
                    await asyncio.sleep(0.02)
            assert sink.tests == 0
            is_over.set()
            async with asyncio.timeout(60):
                with pytest.raises(CannotFollow, match="did not answer within 1 s"):
                    await task
    assert sink.tests == 0


async def test_a_silent_part_beside_one_that_changes(
    resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_follower, "SILENCE_SECONDS", 1)
    is_over = threading.Event()

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if SYNC_REQUEST.encode() not in request:
            yield result(number)
        elif b"member" in request:
            yield message(number, 0x79, *END_OF_REFRESH)
            while not is_over.is_set():
                yield entry(number, dn("bob").encode())
                time.sleep(0.02)

    with hostile_directory(binding(reply)) as hostile:
        built = await resolver(hostile.url, **FOLLOW, changes_of_users=True)
        assert built.changes is not None
        try:
            async with asyncio.timeout(60):
                with pytest.raises(CannotFollow, match=r"nothing for 1 s \(raise its limits"):
                    await built.changes(Sink())
        finally:
            is_over.set()


async def why_not_followed(resolver: Build, *, changed: Callable[[int], bytes]) -> str:
    """Return why a directory is not followed that sends this message."""

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if SYNC_REQUEST.encode() in request:
            yield changed(number)
            yield message(number, 0x79, *END_OF_REFRESH)
        else:
            yield result(number)

    with hostile_directory(binding(reply)) as hostile:
        built = await resolver(hostile.url, **FOLLOW)
        assert built.changes is not None
        async with asyncio.timeout(60):
            with pytest.raises(CannotFollow) as failure:
                await built.changes(Sink())
    return str(failure.value)


async def test_a_dn_that_is_not_utf_8(resolver: Build, caplog: pytest.LogCaptureFixture) -> None:
    def changed(number: int) -> bytes:
        return entry(number).replace(b"cn=g", b"cn=\xff")

    failure = await why_not_followed(resolver, changed=changed)
    assert failure == "the server sent an unreadable response: UnicodeDecodeError"
    assert "Traceback" not in caplog.text


async def test_a_change_without_its_state(resolver: Build) -> None:
    controls = element(0xA0, element(0x30, element(4, STATE)))

    def changed(number: int) -> bytes:
        return message(number, ENTRY, element(4), element(0x30), controls=controls)

    failure = await why_not_followed(resolver, changed=changed)
    assert "the server sent an unreadable message about changes" in failure


async def test_a_bug_is_not_blamed_on_the_server(
    resolver: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def put(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(GroupEntries, "put", put)
    failure = await why_not_followed(resolver, changed=entry)
    assert failure == "queuegate failed: KeyError"
    assert "KeyError: 'a bug'" in caplog.text


VALUES = 390_000
MANY: dict[str, Callable[[int], list[tuple[bytes, list[bytes]]]]] = {
    "names of a group": lambda n: [(b"cn", [b"%d.%d" % (n, place) for place in range(VALUES)])],
    "members": lambda n: [(b"member", [b"%d.%d" % (n, place) for place in range(VALUES)])],
    "options": lambda n: [
        *((b"cn;a-%d-%d" % (n, place), []) for place in range(900)),
        (b"cn;range=0-*", []),
    ],
}


@pytest.mark.parametrize("attributes", MANY.values(), ids=MANY)
async def test_many_values_are_read_in_steps(
    resolver: Build, attributes: Callable[[int], list[tuple[bytes, list[bytes]]]]
) -> None:
    changes = [attributes(number) for number in range(2)]
    sink = Sink()
    is_followed = threading.Event()

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        if SYNC_REQUEST.encode() not in request:
            yield result(number)
            return
        yield message(number, 0x79, *END_OF_REFRESH)
        is_followed.wait(60)
        for each in changes:
            yield changed_entry(number, each)
        yield entry(number, dn("bob").encode())

    with hostile_directory(binding(reply)) as hostile:
        built = await resolver(hostile.url, **FOLLOW)
        async with following(built, sink), bounded_steps():
            is_followed.set()
            await sink.until_all()
        async with bounded_steps():
            await built.close()
