"""The same queues and questions in YARN's formats: does a decision cost the same?"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.command import CannotMeasure, Scale
from bench.policies import QueueSpec
from bench.questions import Kind
from bench.results import Table, Target, ratios, spread
from bench.timing import microseconds_each
from queuegate.policy.tree import Partition
from queuegate_server.formats.registry import load_policy

Prepare = Callable[[], Callable[[], int]]

_GOAL: Final = 1.2
_FORMATS: Final = ("fair-scheduler", "capacity-scheduler")


def to_fair_scheduler(specs: Sequence[QueueSpec]) -> str:
    """Return the queues as an allocation file of the fair scheduler."""
    below: dict[int, list[int]] = {}
    for index, spec in enumerate(specs):
        below.setdefault(spec.parent, []).append(index)

    def written(index: int) -> str:
        spec = specs[index]
        submit, admin = _acls(spec)
        return (
            f'<queue name="{spec.path.rpartition(".")[2]}"><aclSubmitApps>{submit}</aclSubmitApps>'
            f"<aclAdministerApps>{admin}</aclAdministerApps>"
            f"{''.join(map(written, below.get(index, ())))}</queue>\n"
        )

    return f"<allocations>\n{written(0)}</allocations>\n"


def to_capacity_scheduler(specs: Sequence[QueueSpec]) -> str:
    """Return the queues as a file of the capacity scheduler."""
    below: dict[int, list[str]] = {}
    for spec in specs[1:]:
        below.setdefault(spec.parent, []).append(spec.path.rpartition(".")[2])
    lines = ["<configuration>"]
    for index, spec in enumerate(specs):
        submit, admin = _acls(spec)
        for name, value in (
            ("acl_submit_applications", submit),
            ("acl_administer_queue", admin),
            ("queues", ",".join(below.get(index, ()))),
        ):
            if value:
                key = f"yarn.scheduler.capacity.{spec.path}.{name}"
                lines.append(f"<property><name>{key}</name><value>{value}</value></property>")
    return "\n".join([*lines, "</configuration>\n"])


WRITERS: Final[Mapping[str, Callable[[Sequence[QueueSpec]], str]]] = {
    "fair-scheduler": to_fair_scheduler,
    "capacity-scheduler": to_capacity_scheduler,
}


def compare(
    specs: Sequence[QueueSpec],
    yunikorn: Partition,
    work: Callable[[Partition, Kind], Prepare],
    kinds: Sequence[Kind],
    scale: Scale,
) -> tuple[Table, Target]:
    """Decide the same questions in each format, in turn. `work` prepares them."""
    partitions = [yunikorn, *(_load(name, specs) for name in _FORMATS)]
    table = Table(
        "A decision in each format",
        f"The same {len(specs)} queues from a `queues.yaml` and from the files of YARN's "
        "schedulers, and the same questions as above. Microseconds of processor time.",
        (
            "decided by",
            "yunikorn, µs",
            *(f"{name}, µs" for name in _FORMATS),
            *(f"{name} / yunikorn" for name in _FORMATS),
        ),
    )
    highest = 0.0
    for kind in kinds:
        works = [work(partition, kind) for partition in partitions]
        times: list[list[float]] = [[] for _ in works]
        for number in range(scale.rounds):
            order = [*zip(times, works, strict=True)]
            for values, prepared in order if number % 2 else reversed(order):
                values.append(microseconds_each(prepared, scale.seconds / 8))
        compared = [ratios(values, times[0]) for values in times[1:]]
        highest = max(highest, *map(statistics.median, compared))
        table.add(
            kind,
            *(spread(values, ".2f") for values in times),
            *(spread(values, ".2f") for values in compared),
        )
    target = Target(
        "in-process decision: ratio of a YARN format to YuniKorn's, highest median of all kinds",
        f"≤ {_GOAL}",
        f"{highest:.2f}",
        highest <= _GOAL,
    )
    return table, target


def _acls(spec: QueueSpec) -> tuple[str, str]:
    submit = "*" if spec.open_to_all else f"{','.join(spec.users)} {','.join(spec.groups)}"
    return submit, f"{','.join(spec.admin_users)} {','.join(spec.admin_groups)}"


def _load(format_name: str, specs: Sequence[QueueSpec]) -> Partition:
    loaded = load_policy(format_name, WRITERS[format_name](specs).encode(), format_name)
    if not loaded.partitions:
        raise CannotMeasure(f"the generated policy does not load: {loaded.diagnostics[:3]}")
    return loaded.partitions["default"]
