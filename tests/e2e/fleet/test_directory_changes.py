"""A change in a real slapd counts in a fleet and its gates, although no cached groups expire."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

import queuegate
from bench.big_directory import BigDirectory, Member, Size, big_directory, groups_of
from tests.e2e.fleet.replicas import QUEUE, Replica, running_replicas
from tests.support.eventually import eventually

SIZE = Size(20, 20)
GATES = 2
"""The number of gates at each replica."""


class Fleet(NamedTuple):
    directory: BigDirectory
    replicas: list[Replica]
    clients: list[queuegate.Client]
    gates: list[queuegate.Gate]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Three replicas that cache groups for an hour, and gates."""
    with (
        big_directory(tmp_path, SIZE, is_followed=True) as directory,
        running_replicas(tmp_path, directory) as replicas,
        ExitStack() as stack,
    ):
        clients = [
            stack.enter_context(queuegate.Client(each.address, timeout=60)) for each in replicas
        ]
        gates = [
            stack.enter_context(queuegate.Gate(each.address, timeout=60))
            for each in replicas
            for _ in range(GATES)
        ]
        yield Fleet(directory, replicas, clients, gates)


def members(directory: BigDirectory, *, are_in: bool) -> Iterator[Member]:
    """Yield users who are, or are not, in the group that may use the queue."""
    for number in range(SIZE.users):
        if (0 in groups_of(number, SIZE)) == are_in:
            yield Member(directory, number)


def decides_alone(gate: queuegate.Gate, member: Member) -> bool:
    """Return whether the gate decides itself, with the member's current groups."""
    decided = gate.decided
    answer = gate.check(member.name, QUEUE)
    return answer.allowed == member.is_in and gate.decided > decided


def decide_everywhere(fleet: Fleet, member: Member) -> None:
    """Wait until the decisions of all replicas and gates use the member's current groups."""
    for client in fleet.clients:
        eventually(lambda: client.check(member.name, QUEUE).allowed, member.is_in)  # noqa: B023
    for gate in fleet.gates:
        eventually(partial(decides_alone, gate, member), expected=True)


def test_who_joins_and_leaves_a_group(fleet: Fleet) -> None:
    leaving, staying, *_ = members(fleet.directory, are_in=True)
    joining, *_ = members(fleet.directory, are_in=False)
    for member in (leaving, staying, joining):
        decide_everywhere(fleet, member)
    for member in (leaving, joining):
        member.move()
        decide_everywhere(fleet, member)
    assert (leaving.is_in, joining.is_in) == (False, True)
    assert all(gate.check(staying.name, QUEUE).allowed for gate in fleet.gates)
    reports = [each.count("queuegate_resolver_changes_total") for each in fleet.replicas]
    assert sum(reports) >= 2, "the directory has reported both"
