"""A real ResourceManager with YARN's own authorizer and with queuegate's: starts, checks, lists,
submissions while queuegate is stopped, and memory. Needs Maven and a JDK.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import policies
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, spread
from bench.yarn import to_capacity_scheduler
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.resourcemanager.process import (
    RELEASES,
    ResourceManager,
    Unavailable,
    hadoop_jar,
)
from tests.support.servers.yarn_cluster import (
    GROUPS_OF_QUEUEGATE,
    OF_QUEUEGATE,
    OF_YARN,
    Cluster,
    stopped,
)

_YARN_ALONE: Final = {
    "yarn.authorization-provider": "org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer"
}
_SET_UPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "YARN's own": {"site": _YARN_ALONE},
    "queuegate, Hadoop's groups": {},
    "queuegate, with its groups": {"core": GROUPS_OF_QUEUEGATE},
}
_COLD_ONE_IN: Final = 10
_QUEUE: Final = "root.open"
# Queuegate needs groups for this queue, and YARN's own ACLs none, so all submissions succeed.
_ASKED: Final = {**OF_QUEUEGATE, "open": (" dev", " ")}
_LOCAL: Final = {**OF_YARN, "open": ("*", " ")}
_LIST_MILLISECONDS: Final = 10
_CHECK_MICROSECONDS: Final = (2.0, 20.0)
_NOISE_MILLISECONDS: Final = 50
_START_SECONDS: Final = 2.0
_HEAP_MIB: Final = 64


def measure(scale: Scale, folder: Path) -> Part:
    """Start a ResourceManager for each set-up, one at a time."""
    try:
        hadoop_jar()
    except Unavailable as error:
        raise CannotMeasure(str(error)) from error
    part = Part()
    _submissions(scale, folder, part)
    _memory(scale, folder, part)
    return part


def _submissions(scale: Scale, folder: Path, part: Part) -> None:
    count = 50 if scale.is_quick else 1_000
    checks = Table(
        "Checks in a ResourceManager",
        f"Hadoop {RELEASES[1]}, capacity scheduler. A check of a user whose groups are known, on "
        f"one thread, in microseconds; a list of {count:,} applications of another user.",
        ("authorizer", "check, p50", "p99.9", "list, ms"),
    )
    times = Table(
        f"{count:,} submissions while queuegate is stopped (SIGSTOP)",
        "Milliseconds until the scheduler has accepted an application, one after the other. Every "
        f"{_COLD_ONE_IN}th is the first one of a user. queuegate is stopped before the first, and "
        "its lease expires after 5 s.",
        ("authorizer", "queuegate", "users", "p50", "p99", "longest"),
    )
    lists: dict[str, float] = {}
    nanoseconds: list[tuple[float, float]] = []
    longest: dict[tuple[str, str], float] = {}
    for number, (name, set_up) in enumerate(_SET_UPS.items()):
        users = _users(count)
        cluster = _cluster(folder / str(number))
        with cluster.queuegate() as server, _manager(cluster, set_up, users) as manager:
            known = ["alice"] * count
            _submit(manager, known)
            lists[name] = _list(manager, scale.rounds)
            _ask(manager, "measure", user="alice", queue=_QUEUE, count=200_000)  # warms up
            check = _ask(manager, "measure", user="alice", queue=_QUEUE, count=200_000)
            nanoseconds.append((check["median"], check["p99.9"]))
            checks.add(
                name, f"{check['median'] / 1000:.2f}", f"{check['p99.9'] / 1000:.1f}",
                f"{lists[name]:.0f}",
            )  # fmt: skip
            half = len(users) // 2
            _add(times, name, "runs", users[:half], _submit(manager, users[:half]), longest)
            if "site" in set_up:
                continue
            with stopped(server):
                _add(times, name, "stopped", users[half:], _submit(manager, users[half:]), longest)
    part.tables += [checks, times]
    own, *ours = lists.values()
    part.targets += [
        Target(
            "a check in a ResourceManager, p50 and p99.9",
            "under 2 µs, 20 µs",
            ", ".join(f"{value / 1000:.2f} µs" for value in map(max, *nanoseconds[1:])),
            all(
                value / 1000 < goal
                for pair in nanoseconds[1:]
                for value, goal in zip(pair, _CHECK_MICROSECONDS, strict=True)
            ),
        ),
        Target(
            f"what a list of {count:,} applications takes longer than with YARN's own authorizer",
            f"< {_LIST_MILLISECONDS} ms",
            f"{max(ours) - own:.0f} ms",
            max(ours) - own < _LIST_MILLISECONDS,
        ),
        *(
            Target(
                f"longest submission while queuegate is stopped; {name}, known users",
                f"at most {_NOISE_MILLISECONDS} ms more than before",
                f"{longest[name, 'stopped']:.0f} ms after {longest[name, 'runs']:.0f} ms",
                longest[name, "stopped"] <= longest[name, "runs"] + _NOISE_MILLISECONDS,
            )
            for name in list(_SET_UPS)[1:]
        ),
    ]


def _memory(scale: Scale, folder: Path, part: Part) -> None:
    size = policies.MEDIUM if scale.is_quick else policies.LARGE
    table = Table(
        f"Start and memory of a ResourceManager that asks about {size:,} queues",
        "Seconds from the creation of the ResourceManager until it serves, and the heap in use "
        "after a collection, in MiB; each start in a new process.",
        ("authorizer", "starts", "seconds to start", "heap"),
    )
    starts = 1 if scale.is_quick else 3
    seconds: list[float] = []
    heaps: list[float] = []
    cluster = _cluster(folder / "many", to_capacity_scheduler(policies.generate(size)))
    with cluster.queuegate():
        for name, set_up in _SET_UPS.items():
            took, used = [], []
            for _ in range(starts):
                with _manager(cluster, set_up) as manager:
                    took.append(manager.started["seconds"])
                    used.append(min(_ask(manager, "heap")["bytes"] for _ in range(5)) / 2**20)
            seconds.append(statistics.median(took))
            heaps.append(statistics.median(used))
            table.add(name, str(starts), spread(took, ".2f"), spread(used, ".1f"))
    part.tables.append(table)
    longer, more = (max(values[1:]) - values[0] for values in (seconds, heaps))
    part.targets += [
        Target(
            f"what a ResourceManager's start takes longer, {size:,} queues",
            f"< {_START_SECONDS:g} s", f"{longer:.2f} s", longer < _START_SECONDS,
        ),
        Target(
            f"what a ResourceManager's heap has more, {size:,} queues",
            f"< {_HEAP_MIB} MiB", f"{more:.1f} MiB", more < _HEAP_MIB,
        ),
    ]  # fmt: skip


def _cluster(folder: Path, policy: str = "") -> Cluster:
    folder.mkdir()
    cluster = Cluster(folder, "capacity")
    if policy:
        replace(cluster.policy, policy)
    else:
        cluster.change(_ASKED)
    cluster.directory.answer({"*": {"groups": ["dev"]}})
    return cluster


@contextmanager
def _manager(
    cluster: Cluster, set_up: Mapping[str, Any], users: Sequence[str] = ()
) -> Iterator[ResourceManager]:
    """Run a ResourceManager. Hadoop knows the groups of these users, as queuegate does."""
    groups = {f"{user}=dev" for user in ("alice", *users)}
    core = {"hadoop.user.group.static.mapping.overrides": ";".join(sorted(groups))}
    keys: dict[str, Any] = {"core": core, **set_up, "acls": _LOCAL, "start_timeout": "60s"}
    with cluster.yarn(RELEASES[1], **keys) as manager:
        if "error" in manager.started:
            raise CannotMeasure(manager.started["error"])
        if "site" not in set_up:
            eventually(lambda: _ask(manager, "metrics")["GateLive"], "1")
        yield manager


def _users(count: int) -> list[str]:
    """Return the users of twice as many submissions."""
    numbers = itertools.count()
    return [
        "alice" if number % _COLD_ONE_IN else f"cold{next(numbers)}" for number in range(2 * count)
    ]


def _submit(manager: ResourceManager, users: Sequence[str]) -> list[float]:
    """Submit applications, and return the milliseconds of each."""
    times: list[float] = []
    for batch in (users[start : start + 100] for start in range(0, len(users), 100)):
        times += _ask(manager, "submissions", users=batch, queue=_QUEUE)["times"]
    return [1000 * time for time in times]


def _list(manager: ResourceManager, rounds: int) -> float:
    """Return the milliseconds of a list of all applications by a user who owns none."""
    asked: list[float] = [
        _ask(manager, "list", user="mallory")["seconds"] for _ in range(5 * rounds)
    ]
    return 1000 * statistics.median(asked[rounds:])


def _add(
    table: Table,
    name: str,
    state: str,
    users: Sequence[str],
    times: Sequence[float],
    longest: dict[tuple[str, str], float],
) -> None:
    for kind in ("known", "first"):
        of_kind = [
            time
            for user, time in zip(users, times, strict=True)
            if (user == "alice") == (kind == "known")
        ]
        cuts = statistics.quantiles(of_kind, n=100)
        table.add(name, state, kind, f"{cuts[49]:.1f}", f"{cuts[98]:.1f}", f"{max(of_kind):.0f}")
        if kind == "known":
            longest[name, state] = max(of_kind)


def _ask(manager: ResourceManager, op: str, **question: Any) -> dict[str, Any]:
    answer = manager.ask(op, **question)
    if "error" in answer:
        raise CannotMeasure(answer["error"])
    return answer


if __name__ == "__main__":
    main(measure, __doc__)
