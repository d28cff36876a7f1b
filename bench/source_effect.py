"""Measures the time from a change in slapd to its effect in a fleet and in 100 connected gates.

    python -m bench.source_effect --hold GATES ADDRESS...

is a process with gates, which connect to the addresses in turn. It reads a question from each line
of its input, and prints a line once all gates decide it, and another one when all have switched to
the opposite answer.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.big_directory import Member, Size, big_directory, groups_of
from bench.command import CannotMeasure, Scale, main
from bench.processes import cpu_seconds
from bench.replicas import NAMES, QUEUE, Replica, running_replicas
from bench.results import Part, Table, Target
from queuegate import aio
from queuegate.v1 import sync_pb2
from queuegate_server.runtime.event_loop import run_in_loop

_SIZE: Final = Size(1_000, 50)
_PROCESSES: Final = 10
_GATES: Final = 10
"""The number of gates per process."""
_GOAL_MS: Final = 200.0
_LIMIT: Final = 60.0
"""The seconds in which gates must decide, and must switch to another answer."""
_PAUSE: Final = 0.001
"""The seconds after which a gate that answers from the old groups is asked again."""
_ANSWERED: Final = "every gate has answered from the new groups"
_Holder = subprocess.Popen[str]


class _Times(NamedTuple):
    """When one gate took the steps of a change, in seconds of the monotonic clock."""

    replica: str
    dropped: float
    """The gate dropped the user's old groups."""
    answered: float
    """A check at the gate was answered from the new groups, mostly by the gate's server."""
    decided: float
    """The gate received the new groups, so that it decides again."""


def measure(scale: Scale, folder: Path) -> Part:
    """Move users into and out of a group while gates are connected."""
    times = 10 if scale.is_quick else 200
    processes = 2 if scale.is_quick else _PROCESSES
    gates = processes * _GATES
    table = Table(
        f"From a change in slapd to its effect in {gates} gates",
        "A real slapd with `changes: syncrepl`, three servers and a real Redis. Gates in Python, "
        f"{_GATES} in a process, are connected to the servers in turn, and hold the groups of a "
        "user, who is then added to a group or removed from it. Milliseconds from the moment when "
        "the LDAP modification has returned. Nothing polls: a gate that drops the user's groups is "
        "asked about the user at once, so that all gates ask their servers at the same moment. The "
        "gates and their callers share the processors with the servers.",
        ("what", "changes", "p50, ms", "p99, ms", "longest, ms"),
    )
    with (
        big_directory(folder, _SIZE, is_followed=True) as directory,
        running_replicas(folder, directory) as replicas,
        ExitStack() as held,
    ):
        holders = [
            held.enter_context(_holding(replicas, number * _GATES)) for number in range(processes)
        ]
        pids = {
            "slapd": [directory.slapd.pid],
            "the servers": [each.pid for each in replicas],
            "the gates and their callers": [each.pid for each in holders],
        }
        used = dict.fromkeys(pids, 0.0)
        seconds: dict[str, list[float]] = {}
        searches = asked_again = 0
        for number in _users(times):
            member = Member(directory, number)
            _ask(holders, member)
            before, searched = _processor_seconds(pids), directory.searches()
            member.move()
            changed_at = time.monotonic()
            reports, again = _reports(holders)
            member.close()
            searches += directory.searches() - searched - 1
            asked_again += again
            for name, spent in _processor_seconds(pids).items():
                used[name] += spent - before[name]
            for name, at in _moments(reports):
                seconds.setdefault(name, []).append(at - changed_at)
    rows = {name: _add(table, name, found) for name, found in seconds.items()}
    reached = rows[_ANSWERED]
    costs = ", ".join(f"{name} {each / times * 1e3:.0f} ms" for name, each in used.items())
    remark = (
        f"A change costs {searches / times:.1f} searches of slapd. Processor time per change: "
        f"{costs}. Answers from old groups after a gate had dropped them: {asked_again}."
    )
    what = f"a change in slapd in effect on {len(NAMES)} replicas and in {gates} gates, p99"
    goal = f"< {_GOAL_MS:.0f} ms"
    target = Target(what, goal, f"{reached:.0f} ms", reached < _GOAL_MS)
    return Part([table], [target], [remark])


def _moments(reports: Sequence[_Times]) -> Iterator[tuple[str, float]]:
    """Yield the name and time of each step of a change."""
    told: dict[str, float] = {}
    for each in reports:
        told[each.replica] = min(told.get(each.replica, each.dropped), each.dropped)
    yield "a gate of the first server has dropped the old groups", min(told.values())
    yield "a gate of each server has dropped them", max(told.values())
    yield "every gate has dropped them", max(each.dropped for each in reports)
    yield _ANSWERED, max(each.answered for each in reports)
    yield "every gate has the new groups", max(each.decided for each in reports)


def _users(times: int) -> Iterator[int]:
    """Yield users, of whom every other one is in the group."""
    members: list[int] = []
    others: list[int] = []
    for number in range(_SIZE.users):
        (members if 0 in groups_of(number, _SIZE) else others).append(number)
    if 2 * len(members) < times:
        raise CannotMeasure(f"the group has only {len(members)} members")
    for number in range(times):
        yield (others if number % 2 else members)[number // 2]


def _ask(holders: Collection[_Holder], member: Member) -> None:
    """Wait until all gates decide about a member."""
    for holder in holders:
        assert holder.stdin
        holder.stdin.write(json.dumps([member.name, member.is_in]) + "\n")
        holder.stdin.flush()
    for holder in holders:
        _line(holder)


def _reports(holders: Iterable[_Holder]) -> tuple[list[_Times], int]:
    """Wait until all gates have switched; return their times, and the number of old answers."""
    times: list[_Times] = []
    asked_again = 0
    for holder in holders:
        found, again = json.loads(_line(holder))
        times += [_Times(*each) for each in found]
        asked_again += again
    return times, asked_again


def _line(holder: _Holder) -> str:
    assert holder.stdout
    line = holder.stdout.readline()
    if not line:
        raise CannotMeasure("a process with gates has ended")
    return line


def _processor_seconds(pids: dict[str, list[int]]) -> dict[str, float]:
    return {name: sum(map(cpu_seconds, those)) for name, those in pids.items()}


@contextmanager
def _holding(replicas: Sequence[Replica], first: int) -> Iterator[_Holder]:
    """Run a process with gates, the first of which gets this number."""
    turn = first % len(replicas)
    addresses = [each.address for each in (*replicas[turn:], *replicas[:turn])]
    command = [sys.executable, "-m", "bench.source_effect", "--hold", str(_GATES), *addresses]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class _Gate:
    """A gate that is asked as soon as it has dropped a user's groups."""

    def __init__(self, gate: aio.Gate, address: str) -> None:
        self._gate = gate
        self._address = address
        self._user = ""
        self._dropped: asyncio.Future[float]
        self._got: asyncio.Future[float]
        self.asked_again = 0
        replica = gate._reflector.replica
        self._forget, self._set_groups = replica.forget, replica.set_groups
        replica.forget = self._note_forgotten  # type: ignore[method-assign]
        replica.set_groups = self._note_groups  # type: ignore[method-assign]

    async def until_decided(self, name: str, *, expected: bool) -> None:
        """Ask until the gate decides alone."""
        self._user = ""
        while True:
            decided = self._gate.decided
            answer = await self._gate.check(name, QUEUE, timeout=_LIMIT)
            if answer.allowed == expected and self._gate.decided > decided:
                break
            await asyncio.sleep(0.005)
        loop = asyncio.get_running_loop()
        self._dropped, self._got = loop.create_future(), loop.create_future()
        self._user = name

    async def switched(self, *, expected: bool) -> _Times:
        """Wait until the gate's decisions use the new groups."""
        dropped = await self._dropped
        while (await self._gate.check(self._user, QUEUE, timeout=_LIMIT)).allowed != expected:
            self.asked_again += 1
            await asyncio.sleep(_PAUSE)
        answered, got = time.monotonic(), await self._got
        decided = self._gate.decided
        answer = await self._gate.check(self._user, QUEUE, timeout=_LIMIT)
        if answer.allowed != expected or self._gate.decided == decided:
            sys.exit("a gate's decisions do not use the new groups")
        return _Times(self._address, dropped, answered, got)

    def _note_forgotten(self, partition: str, users: Iterable[str]) -> None:
        names = list(users)
        self._forget(partition, names)
        if self._user and (not names or self._user in names) and not self._dropped.done():
            self._dropped.set_result(time.monotonic())

    def _note_groups(self, groups: sync_pb2.UserGroups, asked_at: float) -> None:
        self._set_groups(groups, asked_at)
        if groups.user == self._user and self._dropped.done() and not self._got.done():
            self._got.set_result(time.monotonic())


async def _hold(number: int, addresses: Sequence[str]) -> None:
    async with AsyncExitStack() as stack:
        gates: list[_Gate] = []
        for place in range(number):
            address = addresses[place % len(addresses)]
            opened = aio.Gate(address, name=f"gate {place}", timeout=_LIMIT)
            gates.append(_Gate(await stack.enter_async_context(opened), address))
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, before = json.loads(line)
            async with asyncio.timeout(_LIMIT):
                await asyncio.gather(*(each.until_decided(name, expected=before) for each in gates))
                print("they decide", flush=True)
                times = await asyncio.gather(
                    *(each.switched(expected=not before) for each in gates)
                )
            print(json.dumps([times, sum(each.asked_again for each in gates)]), flush=True)
            for gate in gates:
                gate.asked_again = 0


def _add(table: Table, what: str, seconds: Sequence[float]) -> float:
    """Add a row and return the 99th percentile in milliseconds."""
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1e3
    figures = (statistics.median(seconds) * 1e3, p99, max(seconds) * 1e3)
    table.add(what, str(len(seconds)), *(f"{each:.1f}" for each in figures))
    return p99


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        run_in_loop(_hold(int(sys.argv[2]), sys.argv[3:]))
    else:
        main(measure, __doc__)
