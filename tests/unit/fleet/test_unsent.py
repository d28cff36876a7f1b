"""Changes that wait until Redis can be reached again."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, LogState
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.member import APPEND_SECONDS, AppendFailure, FleetMember
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.session import MAX_UNSENT, FleetSession

HEAD = LogPosition(b"e" * 16, 1, b"1")


def cut_off(stream: object = None, clock: Callable[[], float] = lambda: 0.0) -> FleetMember:
    """Return a replica that is never started."""
    unused = cast("Any", None)
    return FleetMember(
        FleetSession("id", "a", clock()), cast("Any", stream), Refusals(), unused, clock
    )


async def test_instead_of_too_many_all_users_are_invalidated_and_the_policy_is_still_read() -> None:
    member = cut_off()
    member.send_later(Change("reload", is_awaited=True))
    for number in range(MAX_UNSENT - 1):
        member.send_later(Change.invalidate("default", (f"u{number}",), is_awaited=True))
    assert len(member.session.unsent) == MAX_UNSENT
    member.send_later(Change.invalidate("other", ("sam",), is_awaited=False))
    assert [*member.session.unsent] == [
        Change("reload"),
        Change.invalidate("default", (), is_awaited=False),
        Change.invalidate("other", (), is_awaited=False),
    ]


async def test_a_change_waits_while_others_append_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redis answers: that is no reason to work alone."""
    member, change = cut_off(), Change.invalidate("default", ("sam",), is_awaited=False)
    member.send_later(change)
    before = dict(member.session.unsent)

    async def append(*_: object, **__: float) -> LogPosition:
        raise AppendFailure

    monkeypatch.setattr(member, "append", append)
    await member._send_unsent(HEAD)
    assert member.session.unsent == before


async def test_events_that_were_not_appended_are_not_expected() -> None:
    member = cut_off()
    for _ in range(100):
        with pytest.raises(AppendFailure):
            await member.append(Change("reload"))
    assert not member.session._own


async def test_an_append_ends_though_others_append_all_the_time() -> None:
    now = 0.0

    class Busy:
        async def append(self, head: LogPosition, _change: Change, _nonce: bytes) -> LogState:
            nonlocal now
            now += APPEND_SECONDS / 100
            return LogState(head.epoch, head._replace(sequence=head.sequence + 1), [])

    member = cut_off(stream=Busy(), clock=lambda: now)
    member.session.log.follow([], HEAD, 0.0)
    with pytest.raises(StoreUnavailable):
        await member.append(Change("reload"))
    assert APPEND_SECONDS <= now < 2 * APPEND_SECONDS
    assert not member.session._own


async def test_a_change_that_is_asked_for_again_while_it_is_sent_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member, change = cut_off(), Change.invalidate("default", ("sam",), is_awaited=False)
    member.send_later(change)

    async def append(sent: Change, _nonce: bytes, **_: float) -> LogPosition:
        member.send_later(sent)
        return HEAD

    monkeypatch.setattr(member, "append", append)
    await member._send_unsent(HEAD)
    assert [*member.session.unsent] == [change]


async def test_a_change_that_redis_did_not_get_goes_on_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member, change = cut_off(), Change.invalidate("default", ("sam",), is_awaited=False)
    member.send_later(change)

    async def append(*_: object, **__: float) -> LogPosition:
        raise StoreUnavailable("it hangs")

    monkeypatch.setattr(member, "append", append)
    with pytest.raises(StoreUnavailable):
        await member._send_unsent(HEAD)
    assert [*member.session.unsent] == [change]
