"""A server that follows a real directory keeps to the promised memory."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import ldap

from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import (
    MAX_MEMORY,
    expect_state,
    following_server,
    state,
    unit,
)
from tests.resilience.isolation.promise import MIN_CALLS, observed
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import ADMIN, ADMIN_PASSWORD, GROUPS, PEOPLE

LARGE_GROUPS: Final = 26
MEMBERS: Final = 2_000
"""Of a large group, whose entry takes 8 MB."""
SMALL_GROUPS: Final = 14_000
LEVELS: Final = 25
WIDE: Final = "\U0001f600"
"""A letter for whose sake Python keeps each letter of a text in four bytes."""
RESTARTS_SECONDS: Final = 10.0


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


def test_as_much_as_may_be_kept(tmp_path: Path, record: Record) -> None:
    with (
        following_server(tmp_path, "", directory(large_groups())) as (server, slapd),
        observed(server, queues=("root.team",), max_memory=MAX_MEMORY) as beside,
    ):
        expect_state(server, "following")
        administrator: Any = ldap.initialize(slapd.url)
        administrator.simple_bind_s(ADMIN, ADMIN_PASSWORD)
        for verb in (ldap.MOD_ADD, ldap.MOD_DELETE):
            for number in range(3):
                change = (verb, "member", [entries.dn("carol").encode()])
                administrator.modify_s(entries.group_dn(f"g{number}"), [change])
        time.sleep(RESTARTS_SECONDS)
        assert state(server) == "following"
        outcomes = beside.report()["outcomes"]
    record("beside the changes", f"{beside.peak >> 20} MiB, {outcomes}")
    assert beside.peak < MAX_MEMORY
    assert outcomes["answered"] == sum(outcomes.values()) > MIN_CALLS


def test_more_than_may_be_kept(tmp_path: Path, record: Record) -> None:
    """The directory is not followed, and is read again and again."""
    with (
        following_server(tmp_path, "", directory(small_groups())) as (server, _),
        observed(server, queues=("root.team",), max_memory=MAX_MEMORY) as beside,
    ):
        expect_state(server, "failed")
        time.sleep(RESTARTS_SECONDS)
        errors = "".join(server.errors)
        outcomes = beside.report()["outcomes"]
    record("beside the directory", f"{beside.peak >> 20} MiB, {outcomes}")
    assert "take more than 256 MiB of memory" in errors
    assert beside.peak < MAX_MEMORY
    assert outcomes["answered"] == sum(outcomes.values()) > MIN_CALLS
