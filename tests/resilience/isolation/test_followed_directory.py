"""Storms of changes in a real directory that is followed leave known users their answers."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import ldap
import pytest

import queuegate
from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import (
    MAX_MEMORY,
    SECONDS,
    expect_state,
    following_server,
    state,
    unit,
)
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.eventually import eventually
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import ADMIN, ADMIN_PASSWORD, GROUPS, Slapd

MEMBERS: Final = 195_000
USERS: Final = 500
BRANCH: Final = "ou=branch"
TWIG: Final = "ou=twig"
MANY: Final = 400
"""The number of groups that change at once, with ten members each."""


def user(number: int) -> str:
    return entries.dn(f"u{number % USERS}")


def many(branch: str) -> str:
    where = f"{branch},{GROUPS}"
    return "".join(
        entries.group(f"m{number}", *(user(number + place) for place in range(10)), where=where)
        for number in range(MANY)
    )


def ldif() -> str:
    return (
        entries.base()
        + "".join(map(entries.person, ("alice", "carol", *(f"u{n}" for n in range(USERS)))))
        + entries.group("analytics", entries.dn("alice"))
        + entries.group("big", *(entries.dn(f"member{number}") for number in range(MEMBERS)))
        + unit(f"{BRANCH},{GROUPS}")
        + many(BRANCH)
    )


class Storms:
    """A directory that changes, and a server beside whose neighbour it does."""

    def __init__(self, beside: Observation, slapd: Slapd) -> None:
        self.beside = beside
        self.slapd = slapd
        self.administrator: Any = ldap.initialize(slapd.url)
        self.administrator.simple_bind_s(ADMIN, ADMIN_PASSWORD)
        self._is_member = False

    def modify(self, group: str, verb: int, member: str) -> None:
        self.administrator.modify_s(group, [(verb, "member", [member.encode()])])

    def expect_end(self) -> None:
        """Wait until all earlier changes count, the last of which moves carol in or out."""
        verb = ldap.MOD_DELETE if self._is_member else ldap.MOD_ADD
        self._is_member = not self._is_member
        self.modify(entries.group_dn("analytics"), verb, entries.dn("carol"))
        with queuegate.Client(self.beside.server.address, timeout=5) as client:
            eventually(lambda: client.check("carol", "root.team").allowed, self._is_member, SECONDS)
        assert state(self.beside.server) == "following"


@pytest.fixture(scope="module")
def storms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storms]:
    folder = tmp_path_factory.mktemp("server")
    with following_server(folder, "    repeat_after: 0", ldif()) as (server, slapd):
        expect_state(server, "following")
        queues = ("root.open", "root.team")
        with observed(server, queues=queues, max_memory=MAX_MEMORY) as found:
            yield Storms(found, slapd)


def one_member_of_many(storms: Storms) -> None:
    """A member joins or leaves a group with 195,000 others, again and again."""
    group = entries.group_dn("big")
    for number in range(5):
        storms.modify(group, ldap.MOD_ADD, user(number))
        storms.modify(group, ldap.MOD_DELETE, user(number))


def many_groups(storms: Storms) -> None:
    """Each of many groups gets a member, and loses it."""
    for verb in (ldap.MOD_ADD, ldap.MOD_DELETE):
        for number in range(MANY):
            storms.modify(f"cn=m{number},{BRANCH},{GROUPS}", verb, user(number + 10))


def rename_of_a_container(storms: Storms) -> None:
    for branch, name in ((BRANCH, TWIG), (TWIG, BRANCH)):
        storms.administrator.rename_s(f"{branch},{GROUPS}", name)


def deletion_of_a_container(storms: Storms) -> None:
    for number in range(MANY):
        storms.administrator.delete_s(f"cn=m{number},{BRANCH},{GROUPS}")
    storms.administrator.delete_s(f"{BRANCH},{GROUPS}")
    storms.slapd.add(unit(f"{BRANCH},{GROUPS}") + many(BRANCH))


def deletion_of_a_large_group(storms: Storms) -> None:
    group = entries.group_dn("big")
    [(_, attributes)] = storms.administrator.search_s(group, ldap.SCOPE_BASE)
    storms.administrator.delete_s(group)
    storms.administrator.add_s(group, list(attributes.items()))


STORMS: Final = (
    *(one_member_of_many, many_groups),
    *(rename_of_a_container, deletion_of_a_container, deletion_of_a_large_group),
)


@pytest.mark.parametrize("storm", STORMS, ids=lambda storm: storm.__name__)
def test_a_storm_of_changes(
    storms: Storms, record: Record, storm: Callable[[Storms], None]
) -> None:
    def flood() -> None:
        end = time.monotonic() + 2
        storm(storms)
        storms.expect_end()
        # The neighbour must have asked often enough.
        time.sleep(max(0.0, end - time.monotonic()))

    expect_isolation(storms.beside, record, flood, MAX_MEMORY)
