"""Changes that wait until Redis can be reached again."""

from typing import Any, cast

from queuegate_server.fleet.events import Change
from queuegate_server.fleet.member import MAX_UNSENT, FleetMember
from queuegate_server.fleet.replica import ReplicaState
from queuegate_server.identity.lease import CacheLease


def cut_off() -> FleetMember:
    """Return a replica that is never started."""
    unused = cast("Any", None)
    return FleetMember(
        "a",
        unused,
        ReplicaState(),
        version="1",
        lease=CacheLease(),
        engine=unused,
        reloader=unused,
        hub=unused,
        clock=lambda: 0.0,
    )


async def test_of_too_many_all_users_are_forgotten_and_the_policy_is_still_read() -> None:
    member = cut_off()
    member.send_later(Change("reload", is_awaited=True))
    for number in range(MAX_UNSENT - 1):
        member.send_later(Change.forget("default", (f"u{number}",), is_awaited=True))
    assert len(member.unsent) == MAX_UNSENT
    member.send_later(Change.forget("other", ("sam",), is_awaited=False))
    assert [*member.unsent] == [
        Change("reload"),
        Change.forget("default", (), is_awaited=False),
        Change.forget("other", (), is_awaited=False),
    ]
