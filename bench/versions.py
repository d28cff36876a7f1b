"""Two versions of queuegate side by side: the server of this checkout and another one.

The other version is given by the Python of an environment in which it is installed:
`python -m bench.versions /path/to/other/.venv/bin/python`. `make bench-beside REV=commit` installs
that commit and runs this. Both get the same questions about the same policy, in turn, and each has
the first core to itself. The comparison is of a server's processor time per call, including all
threads and the kernel's part. A version that switches the scheduling class of its threads at run
time is prevented from doing so; `--batch` puts both into the batch class for their whole lifetime.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import grpc

from bench import policies, processes
from bench.command import CannotMeasure
from bench.load import Amount
from bench.processes import Running
from bench.questions import Questions, batches, delimited
from bench.raw import Raw
from bench.results import Table, spread
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

_BATCH: Final = 1_000
_CONCURRENCY: Final = 4
_UNARY_CONCURRENCY: Final = 50
_NORMAL_CLASS: Final = "import os\nvars(os).pop('SCHED_BATCH', None)\n"
"""A sitecustomize.py: code that does not see the batch class cannot switch to it."""
_FEW: Final = 100
"""The number of users, and of queues, in batches with few of them."""
_COLUMNS: Final = (200, 200, 100_000)
"""The numbers of users, queues and pairs."""


class Work(NamedTuple):
    """A load for both servers."""

    name: str
    method: str
    checks: int
    """The number of checks per call."""
    concurrency: int
    calls: int
    messages: Callable[[], list[bytes]]
    """Returns the messages of a round, the same ones each time if `is_known`."""
    is_known: bool


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the Python of the other version's environment")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("--batch", action="store_true", help="both in the batch class")
    parser.add_argument("--transports", nargs="+", default=["grpcio", "native"])
    arguments = parser.parse_args()
    pythons = {"this": sys.executable, "other": str(arguments.other.absolute())}
    with tempfile.TemporaryDirectory(prefix="queuegate-versions-") as name:
        folder = Path(name)
        specs = policies.generate(policies.MEDIUM)
        policy = folder / "queues.yaml"
        policy.write_text(policies.to_yaml(specs))
        (folder / "normal").mkdir()
        (folder / "normal" / "sitecustomize.py").write_text(_NORMAL_CLASS)
        works = _works(
            Questions(specs), [spec.path for spec in specs], 10 if arguments.quick else 1
        )
        table = Table(
            "This version to the other one",
            "",
            ("work", "transport", "this, checks/s on one core", "other", "ratio"),
        )
        for transport in arguments.transports:
            _measure(works, transport, pythons, folder, arguments, table)
        print(table.markdown())
        _starts(pythons, folder, policy, arguments)


def _measure(
    works: Sequence[Work],
    transport: str,
    pythons: dict[str, str],
    folder: Path,
    arguments: argparse.Namespace,
    table: Table,
) -> None:
    policy = folder / "queues.yaml"
    with (
        _server(pythons["this"], policy, transport, folder, arguments) as this,
        _server(pythons["other"], policy, transport, folder, arguments) as other,
    ):
        for work in works:
            rates: dict[str, list[float]] = {"this": [], "other": []}
            for number in range(arguments.rounds):
                file = folder / "messages"
                file.write_bytes(delimited(work.messages()))
                pair = [("this", this), ("other", other)]
                for name, server in pair if number % 2 else reversed(pair):
                    if work.is_known:
                        for _ in range(2):
                            _ask(server, work, file, calls=None)
                    rates[name].append(_ask(server, work, file, calls=work.calls))
            ratios = [
                mine / theirs for mine, theirs in zip(rates["this"], rates["other"], strict=True)
            ]
            table.add(
                work.name,
                transport,
                f"{statistics.median(rates['this']):,.0f}",
                f"{statistics.median(rates['other']):,.0f}",
                spread(ratios, ".2f"),
            )
            print(table.rows[-1], file=sys.stderr)


def _ask(server: Running, work: Work, file: Path, *, calls: int | None) -> float:
    """Return the checks per second of processor time. Without a number of calls, each message is
    asked once.
    """
    # A generator needs two calls for its percentiles.
    count = calls or max(2, len(work.messages()))
    before = server.cpu_seconds()
    Raw().run(server.address, work.method, file, Amount(work.concurrency, calls=count))
    spent = server.cpu_seconds() - before
    return count * work.checks / max(spent, 0.01)


def _works(questions: Questions, paths: Sequence[str], divisor: int) -> list[Work]:
    known = questions.mixed(4_000)
    singles = [one.message().SerializeToString() for one in known]
    known_batches = [
        batch.SerializeToString() for batch in batches(questions.mixed(32 * _BATCH), _BATCH)
    ]
    columns = _columns(paths, 1)
    numbers = count(2)

    def new_singles() -> list[bytes]:
        asked = questions.mixed(20_000 // divisor)
        return [one.message().SerializeToString() for one in asked]

    def new_batches() -> list[bytes]:
        asked = questions.mixed(max(100 // divisor, 4) * _BATCH)
        return [batch.SerializeToString() for batch in batches(asked, _BATCH)]

    def new_small_batches() -> list[bytes]:
        return [_batch(paths, next(numbers)) for _ in range(max(100 // divisor, 4))]

    def new_columns() -> list[bytes]:
        return [_columns(paths, next(numbers)) for _ in range(max(20 // divisor, 2))]

    unary, batch, column = "CheckQueueAccess", "BatchCheckQueueAccess", "CheckQueueAccessColumns"
    pairs = _COLUMNS[2]
    return [
        Work("unary, asked before", unary, 1, _UNARY_CONCURRENCY, 40_000 // divisor,
             lambda: singles, True),
        Work("unary, never asked before", unary, 1, _UNARY_CONCURRENCY, 20_000 // divisor,
             new_singles, False),
        Work("batches of 1,000, asked before", batch, _BATCH, _CONCURRENCY, 3_000 // divisor,
             lambda: known_batches, True),
        Work("batches of 1,000, never asked before", batch, _BATCH, _CONCURRENCY,
             max(100 // divisor, 4), new_batches, False),
        Work("batches of 1,000 of 100 users and 100 queues, never asked before", batch, _BATCH,
             _CONCURRENCY, max(100 // divisor, 4), new_small_batches, False),
        Work("columns of 100,000, asked before", column, pairs, _CONCURRENCY, 200 // divisor,
             lambda: [columns], True),
        Work("columns of 100,000, never asked before", column, pairs, _CONCURRENCY,
             max(20 // divisor, 2), new_columns, False),
    ]  # fmt: skip


def _users(seed: int, count: int) -> list[UserGroupInformation]:
    rng = random.Random(seed)
    return [
        UserGroupInformation(
            user=f"user{seed}-{number}", groups=[f"team{rng.randrange(1000)}" for _ in range(5)]
        )
        for number in range(count)
    ]


def _batch(paths: Sequence[str], seed: int) -> bytes:
    """Return a batch of different checks about few users and queues."""
    rng = random.Random(seed)
    users, queues = _users(seed, _FEW), rng.sample(list(paths), _FEW)
    return access_pb2.BatchCheckQueueAccessRequest(
        checks=[
            access_pb2.CheckQueueAccessRequest(
                user=users[pair // _FEW],
                queue=queues[pair % _FEW],
                access=access_pb2.ACCESS_TYPE_SUBMIT,
            )
            for pair in rng.sample(range(_FEW * _FEW), _BATCH)
        ]
    ).SerializeToString()


def _columns(paths: Sequence[str], seed: int) -> bytes:
    rng = random.Random(seed)
    users, queues, pairs = _COLUMNS
    return access_pb2.CheckQueueAccessColumnsRequest(
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        users=_users(seed, users),
        queues=rng.sample(list(paths), queues),
        user_indexes=rng.choices(range(users), k=pairs),
        queue_indexes=rng.choices(range(queues), k=pairs),
    ).SerializeToString()


@contextmanager
def _server(
    python: str, policy: Path, transport: str, folder: Path, arguments: argparse.Namespace
) -> Iterator[Running]:
    command = processes.queuegate(policy, transport)
    command[0] = python
    environment = {"PYTHONPATH": str(folder / "normal")}
    if arguments.batch:
        command = ["chrt", "-b", "0", *command]
        environment = {}
    place = Path(tempfile.mkdtemp(dir=folder)) / "server"
    with processes.running(
        command, place, on_own_core=True, extra_environment=environment, cwd=folder
    ) as server:
        yield server


def _starts(
    pythons: dict[str, str], folder: Path, policy: Path, arguments: argparse.Namespace
) -> None:
    """Print the seconds from startup to SERVING, and the memory afterwards."""
    for name, python in pythons.items():
        seconds, memory = [], []
        for _ in range(arguments.rounds):
            begin = time.perf_counter()
            with _server(python, policy, "grpcio", folder, arguments) as server:
                _wait_until_serving(server.address)
                seconds.append(time.perf_counter() - begin)
                memory.append(server.resident_mib())
        print(f"{name}: start {spread(seconds, '.2f')} s, memory {spread(memory, '.0f')} MiB")


def _wait_until_serving(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/grpc.health.v1.Health/Check"
        )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if check(b"", timeout=10, wait_for_ready=True) == b"\x08\x01":
                return
            time.sleep(0.005)
    raise CannotMeasure("a server did not become ready")


if __name__ == "__main__":
    main()
