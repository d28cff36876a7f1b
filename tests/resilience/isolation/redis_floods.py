"""The most expensive content that Redis can have for a replica: by its other users, who lack the
fleet's secret, and by replicas of the fleet.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle
from typing import Final

import queuegate
from queuegate_server.fleet.confirmations import MAX_CONFIRMED_BYTES
from queuegate_server.fleet.events import ReplicaStatus, encode_status
from queuegate_server.fleet.keys import Signer
from tests.support.hostile_redis import HOSTILE, LARGE, PREFIX
from tests.support.servers.fleet import SECRET, Fleet

SECONDS: Final = 3.0
USERS: Final = 400
NAMES: Final = 1_000
"""In an invalidation."""
GROUPS: Final = 2_000
"""Of a user, who then has a value of nearly the largest size."""

Flood = Callable[[Fleet], None]


def hostile(name: str) -> Flood:
    """Return a flood by somebody who writes, and then waits for what the replicas do."""

    def flood(fleet: Fleet) -> None:
        HOSTILE[name](fleet.redis)
        time.sleep(SECONDS)

    return flood


def large_values(fleet: Fleet) -> None:
    """Values of users that no replica has written, while everybody asks about these."""
    _ask(fleet, lambda user: fleet.redis.write([("SET", _key(user), LARGE)]))


def values_of_another_type(fleet: Fleet) -> None:
    _ask(fleet, lambda user: fleet.redis.write([("HSET", _key(user), "a", "b")]))


def users_in_many_groups(fleet: Fleet) -> None:
    """Values that replicas have written. Each look-up is one by a replica that has no groups."""
    groups = [f"group-{number:04}-{'x' * 100}" for number in range(GROUPS)]
    fleet.directory.answer({"*": {"groups": groups}})  # a file that is read in a millisecond
    _ask(fleet, lambda _user: None)


def replicas_that_confirm_very_much(fleet: Fleet) -> None:
    """Signed statuses of the largest size, of replicas that then stop."""
    confirmed = {f"{number:016x}": list[str]() for number in range(MAX_CONFIRMED_BYTES // 23)}
    status = ReplicaStatus("", "", 0, confirmed=confirmed)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        status = replace(status, serial=status.serial + 1)
        _report(fleet, status)
    _report(fleet, replace(status, serial=status.serial + 1, confirmed={}, has_left=True))


def _report(fleet: Fleet, status: ReplicaStatus) -> None:
    """Write a status as 60 replicas would."""
    signer = Signer(SECRET.encode(), "status")
    statuses = [
        replace(status, instance=f"{number:016x}", name=f"other-{number}") for number in range(60)
    ]
    fleet.redis.write(
        ["HSET", f"{PREFIX}replicas", each.instance, encode_status(signer, each)]
        for each in statuses
    )


def invalidations_of_many_users(fleet: Fleet) -> None:
    """Events of the largest size, one after the other, which other replicas append."""
    names = [f"someone-{number}" for number in range(NAMES)]
    end = time.monotonic() + SECONDS

    def invalidate() -> None:
        while time.monotonic() < end:
            try:
                fleet.clients["b"].invalidate(names)
            except queuegate.ServerUnavailable:
                time.sleep(0.05)

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(invalidate) for _ in range(4)]:
            each.result()


def _ask(fleet: Fleet, before: Callable[[str], None]) -> None:
    """Ask one replica about many users, about each after something has been done."""
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(8) as pool:
        for turn in cycle(range(2)):
            for number in range(USERS // 20):
                before(_user(number))
            asked = [pool.submit(_may, fleet, _user(number)) for number in range(USERS)]
            for each in asked:
                each.result()
            fleet.clients["b"].invalidate([_user(number) for number in range(USERS)])
            if turn and time.monotonic() > end:
                return


def _may(fleet: Fleet, user: str) -> None:
    for name in ("b", "a"):
        try:
            fleet.clients[name].check(user, "root.sandbox")
        except queuegate.QueuegateError:
            continue


def _user(number: int) -> str:
    return f"user{number}"


def _key(user: str) -> str:
    return f"{PREFIX}user:default:{user}"


FLOODS: Final[Mapping[str, Flood]] = {name: hostile(name) for name in HOSTILE} | {
    each.__name__: each
    for each in (
        large_values,
        values_of_another_type,
        users_in_many_groups,
        replicas_that_confirm_very_much,
        invalidations_of_many_users,
    )
}
