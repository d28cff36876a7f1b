"""A server that follows a real directory keeps to the promised memory."""

import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import ldap

from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import (
    MAX_MEMORY,
    expect_state,
    following_server,
    state,
    unit,
)
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.servers import ldap_entries as entries
from tests.support.servers.queuegate_server import RunningServer
from tests.support.servers.slapd import ADMIN, ADMIN_PASSWORD, GROUPS, PEOPLE

LARGE_GROUPS: Final = 26
MEMBERS: Final = 2_000
"""Of a large group, whose entry takes 8 MB."""
MOST_MEMBERS: Final = 11_500
"""Of a group whose entry takes 46 MiB."""
OTHERS: Final = 7
"""The large groups for which there is room while that entry is read."""
PART: Final = 850
"""The members that slapd takes in one change."""
SMALL_GROUPS: Final = 14_000
LEVELS: Final = 25
WIDE: Final = "\U0001f600"
"""A letter for whose sake Python keeps each letter of a text in four bytes."""
RESTARTS_SECONDS: Final = 10.0
READ_SECONDS: Final = 2.0
TOO_MUCH: Final = "take more than 256 MiB of memory"


class Followed(NamedTuple):
    server: RunningServer
    administrator: Any
    """A connection to the directory."""
    beside: Observation


def large_groups() -> Iterator[str]:
    """Groups whose members take 0.9 of the memory."""
    below = ",".join(f"ou={'x' * 200}{level}" for level in range(20))
    for number in range(LARGE_GROUPS):
        members = (f"uid=g{number}m{place},{below},{PEOPLE}" for place in range(MEMBERS))
        yield entries.group(f"g{number}", *members)


def small_groups() -> Iterator[str]:
    """Groups whose own DNs, and what is made of them, take more than the memory."""
    where = GROUPS
    for level in range(LEVELS):
        where = f"ou={'x' * 200}{level or WIDE},{where}"
        yield unit(where)
    for number in range(SMALL_GROUPS):
        yield entries.group(f"g{number}", entries.dn("carol"), where=where)


def directory(groups: Iterator[str]) -> str:
    people = "".join(map(entries.person, ("alice", "carol")))
    team = entries.group("analytics", entries.dn("alice"))
    return entries.base() + people + team + "".join(groups)


def large_entry() -> Iterator[str]:
    """A group whose entry is nearly as large as an entry may be, and as much beside it as fits."""
    below = ",".join(f"ou={'x' * 200}{level}" for level in range(20))
    yield from islice(large_groups(), OTHERS)
    yield entries.group("large", *(f"uid=m{n},{below},{PEOPLE}" for n in range(MOST_MEMBERS)))


@contextlib.contextmanager
def followed(folder: Path, groups: Iterator[str]) -> Iterator[Followed]:
    """Have a neighbour ask a server about known users, and about a queue that needs no groups."""
    queues = ("root.open", "root.team")
    with (
        following_server(folder, "", directory(groups)) as (server, slapd),
        observed(server, queues=queues, max_memory=MAX_MEMORY) as beside,
    ):
        administrator: Any = ldap.initialize(slapd.url)
        administrator.simple_bind_s(ADMIN, ADMIN_PASSWORD)
        yield Followed(server, administrator, beside)


def until(server: RunningServer, expected: str) -> Callable[[], None]:
    """Return what waits until the directory has been read, and is followed or cannot be."""

    def wait() -> None:
        expect_state(server, expected)
        # The neighbour must have asked often enough.
        time.sleep(READ_SECONDS)

    return wait


def test_as_much_as_may_be_kept(tmp_path: Path, record: Record) -> None:
    with followed(tmp_path, large_groups()) as (server, administrator, beside):
        expect_isolation(beside, record, until(server, "following"), MAX_MEMORY)

        def change() -> None:
            for number in range(3):
                change_members(administrator, f"g{number}")
            time.sleep(RESTARTS_SECONDS)

        expect_isolation(beside, record, change, MAX_MEMORY)
        assert state(server) == "following"


def test_a_large_entry_beside_others(tmp_path: Path, record: Record) -> None:
    """What is kept, and the entry that is being read, take nearly as much as they may together."""
    with followed(tmp_path, large_entry()) as (server, administrator, beside):
        expect_isolation(beside, record, until(server, "following"), MAX_MEMORY)

        def change() -> None:
            change_members(administrator, "large")
            time.sleep(RESTARTS_SECONDS)

        expect_isolation(beside, record, change, MAX_MEMORY)
        assert state(server) == "following"
        assert TOO_MUCH not in "".join(server.errors)


def test_a_large_entry_for_which_there_is_no_room(tmp_path: Path, record: Record) -> None:
    """It is not read beside all that is kept, and the directory is not followed from then on."""
    with followed(tmp_path, large_groups()) as (server, administrator, beside):
        expect_state(server, "following")
        below = ",".join(f"ou={'y' * 200}{level}" for level in range(20))
        for start in range(0, MOST_MEMBERS - MEMBERS, PART):
            members = [f"uid={start + n},{below},{PEOPLE}".encode() for n in range(PART)]
            administrator.modify_s(entries.group_dn("g0"), [(ldap.MOD_ADD, "member", members)])
        expect_state(server, "failed")
        expect_isolation(beside, record, lambda: time.sleep(RESTARTS_SECONDS), MAX_MEMORY)
        assert "the entry that is being read, take more than 256 MiB" in "".join(server.errors)


def test_more_than_may_be_kept(tmp_path: Path, record: Record) -> None:
    """The directory is not followed, and is read again and again."""
    with followed(tmp_path, small_groups()) as (server, _, beside):
        expect_isolation(beside, record, until(server, "failed"), MAX_MEMORY)
        expect_isolation(beside, record, lambda: time.sleep(RESTARTS_SECONDS), MAX_MEMORY)
        assert TOO_MUCH in "".join(server.errors)


def change_members(administrator: Any, group: str) -> None:
    """Let a member join and leave a group."""
    for verb in (ldap.MOD_ADD, ldap.MOD_DELETE):
        change = (verb, "member", [entries.dn("carol").encode()])
        administrator.modify_s(entries.group_dn(group), [change])
