"""Decisions in this process, on a small and on a very large policy.

Shows that the cost of a decision does not grow with the number of queues and is the same in YARN's
formats, and how much loading a very large policy costs.
"""

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import policies, yarn
from bench.command import CannotMeasure, Scale, main
from bench.policies import QueueSpec
from bench.processes import resident_mib
from bench.questions import Kind, Question, Questions
from bench.results import Part, Table, Target, ratios, spread
from bench.timing import microseconds_each
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.formats.registry import load_policy
from queuegate_server.runtime import resources

_KINDS: Final = (Kind.USER, Kind.GROUP, Kind.WILDCARD, Kind.DENIED, Kind.MISSING)
_QUESTIONS: Final = 5_000
_AT_ONCE: Final = 100
_MAX_MICROSECONDS: Final = (2.0, 1.0)
_LOADS: Final = 3
_MAX_SECONDS: Final = 3.0


class _Case(NamedTuple):
    """A policy, and the queues in its questions."""

    name: str
    specs: Sequence[QueueSpec]
    partition: Partition
    few: bool


def measure(scale: Scale, _folder: Path) -> Part:
    """Load both policies and decide on them in turn."""
    resources.configure_gc()  # as in the server
    size = 10_000 if scale.is_quick else policies.LARGE
    small, large = policies.small(), policies.generate(size)
    loading, in_time, large_partition = _load_large(large, 1 if scale.is_quick else _LOADS)
    gc.freeze()
    small_partition = _load(policies.to_yaml(small).encode())
    cases = (
        _Case(f"{policies.SMALL} queues", small, small_partition, few=True),
        _Case(f"{size:,} queues, 3 asked for", large, large_partition, few=True),
        _Case(f"{size:,} queues, all asked for", large, large_partition, few=False),
    )
    deciding, targets = _decide(cases, scale)
    in_formats, target = yarn.compare(
        small,
        small_partition,
        lambda partition, kind: _work(cases[0]._replace(partition=partition), kind),
        _KINDS,
        scale,
    )
    return Part([deciding, in_formats, loading], [*targets, target, in_time])


def _load(text: bytes) -> Partition:
    loaded = load_policy("yunikorn", text, "queues.yaml")
    if not loaded.partitions:
        raise CannotMeasure(f"the generated policy does not load: {loaded.diagnostics[:3]}")
    return loaded.partitions["default"]


def _load_large(specs: Sequence[QueueSpec], times: int) -> tuple[Table, Target, Partition]:
    text = policies.to_yaml(specs).encode()
    gc.collect()
    before = resident_mib()
    seconds = []
    memory = 0.0
    loaded: list[Partition] = []
    for _ in range(times):
        loaded.clear()  # only one exists at a time, so the memory is for one
        start = time.thread_time()
        loaded.append(_load(text))
        seconds.append(time.thread_time() - start)
        gc.collect()
        memory = memory or resident_mib() - before
    for path in loaded[0].paths:
        loaded[0].chain(path, Access.SUBMIT)
    memory_of_all = resident_mib() - before
    table = Table(
        "Loading a very large policy",
        "`formats.registry.load_policy`: from the text of a `queues.yaml` to the structures that "
        "decisions use. Processor time. Memory is the growth of this process during the first "
        "load, including memory that parsing freed but the allocator kept; names are split, and "
        "a queue's chain is built, when the queue is first asked about.",
        (
            "queues",
            "levels",
            "ACL entries",
            "text, MiB",
            "seconds",
            "resident memory, MiB",
            "all queues asked for, MiB",
        ),
    )
    table.add(
        f"{len(specs):,}",
        str(specs[-1].level),
        f"{sum(spec.entries for spec in specs):,}",
        f"{len(text) / 2**20:.1f}",
        spread(seconds, ".2f"),
        f"{memory:,.0f}",
        f"{memory_of_all:,.0f}",
    )
    median = statistics.median(seconds)
    what = f"load of {len(specs):,} queues"
    in_time = f"< {_MAX_SECONDS:.0f} s"
    target = Target(what, in_time, f"{median:.2f} s", median < _MAX_SECONDS)
    return table, target, loaded[0]


def _decide(cases: Sequence[_Case], scale: Scale) -> tuple[Table, list[Target]]:
    few, some_of_many, all_of_many = cases
    table = Table(
        "A decision",
        f"`policy.decide.decide`, {_QUESTIONS:,} different questions in turn, about queues on the "
        f"lowest level ({few.specs[-1].level}), by users in 5 groups. A grant can come from any "
        "of the levels above; a denial has checked all of them. Microseconds of processor time "
        "per decision, including the surrounding loop. A queue that is asked about often gets an "
        "index of all names that have access to it (`policy.chain`, bounded); until then, its "
        "levels are checked one by one. The first ratio shows whether the work grows with the "
        "policy; the second shows the cost when the names no longer fit in the processor's "
        "caches: each of the five groups then waits for a few cache lines. Two optimizations "
        "were tried on 20,000 to 100,000 queues and dropped because they gained nothing: looking "
        "up all five groups in one operation (`isdisjoint`, `&`, `map`), and a separate set of "
        "the groups' names, whose entries are closer together.",
        (
            "decided by",
            *(f"{case.name}, µs" for case in cases),
            "3 of many / few",
            "all of many / few",
        ),
    )
    slowest = {case.name: 0.0 for case in cases}
    for kind in _KINDS:
        works = [_work(case, kind) for case in cases]
        times: list[list[float]] = [[] for _ in works]
        for _ in range(scale.rounds):
            for values, work in zip(times, works, strict=True):
                values.append(microseconds_each(work, scale.seconds / 8))
        for case, values in zip(cases, times, strict=True):
            slowest[case.name] = max(slowest[case.name], statistics.median(values))
        table.add(
            kind,
            *(spread(values, ".2f") for values in times),
            *(spread(ratios(values, times[0]), ".2f") for values in times[1:]),
        )
    targets = [
        _target(case.name, slowest[case.name], most)
        for most in _MAX_MICROSECONDS
        for case in (some_of_many, all_of_many)
    ]
    return table, targets


def _target(name: str, slowest: float, most: float) -> Target:
    return Target(
        f"in-process decision: {name}, slowest kind",
        f"< {most:.0f} µs",
        f"{slowest:.2f} µs",
        slowest < most,
    )


def _work(case: _Case, kind: Kind) -> Callable[[], Callable[[], int]]:
    """Return a function that prepares the next decisions of that kind."""
    partition = case.partition
    questions = Questions(case.specs, from_level=case.specs[-1].level, few=case.few)
    asked = questions.of(kind, _QUESTIONS)
    for question in asked:
        _check(partition, question)
    raw = itertools.cycle([_bytes(question) for question in asked])

    def prepare() -> Callable[[], int]:
        # Every text is new, as in a request: its hash is not yet known, and it is in the
        # processor's cache.
        arguments = [
            (path.decode(), user.decode(), tuple(group.decode() for group in groups))
            for path, user, groups in itertools.islice(raw, _AT_ONCE)
        ]

        def decide_all() -> int:
            for path, user, groups in arguments:
                decide(partition, path, Access.SUBMIT, user, groups)
            return len(arguments)

        return decide_all

    return prepare


def _bytes(asked: Question) -> tuple[bytes, bytes, list[bytes]]:
    return asked.queue.encode(), asked.user.encode(), [group.encode() for group in asked.groups]


def _check(partition: Partition, asked: Question) -> None:
    decision = decide(partition, asked.queue, Access.SUBMIT, asked.user, asked.groups)
    if decision is None or decision.allowed != asked.allowed:
        raise CannotMeasure(f"{asked} was decided as {decision}")


if __name__ == "__main__":
    main(measure, __doc__)
