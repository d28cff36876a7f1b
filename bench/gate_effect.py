"""Measures the time from a change to its effect on policies and groups in 100 connected gates.

The time is the duration of a call with `wait`, which returns when the last gate has applied the
change, or the lease of a gate that has not has expired. Ten processes hold ten gates each.

    python -m bench.gate_effect --hold ADDRESS GATES

is such a process. It prints a line once its gates decide on their own, and exits at the end of its
input.
"""

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import queuegate
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

_PROCESSES: Final = 10
_GATES: Final = 10
"""The number of gates per process."""
_QUEUES: Final = 200
_USER: Final = "member"
_GOAL_MILLISECONDS: Final = 100.0
_LEASE_SECONDS: Final = 5.0

_Change = Callable[[int], Any]
"""Makes a numbered change, and returns the result of the call that waited."""


def measure(scale: Scale, folder: Path) -> Part:
    """Change policies and groups while gates are connected, then while some of them hang."""
    repeats = 20 if scale.is_quick else 200
    faults = 1 if scale.is_quick else 5
    processes = 2 if scale.is_quick else _PROCESSES
    table = Table(
        f"From a change to its effect in {processes * _GATES} gates",
        f"Gates in Python, {_GATES} in a process, hold a policy of {_QUEUES} queues and the groups "
        "of a user. Milliseconds of a call of `reload` or `invalidate` with `wait`: when it "
        "returns, every gate decides from the new state. A policy is parsed in a child process, "
        "whose start the first row shows. Faults hit one process and its gates, right before the "
        "call.",
        ("change", "calls", "p50, ms", "p99, ms", "longest, ms", "gates waited out"),
    )
    policy = folder / "queues.yaml"
    write_policy(policy, 0)
    directory = ScriptedDirectory(folder)
    directory.answer({_USER: {"groups": ["g0"]}})
    settings = {
        "policy": {"path": str(policy)},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
    }
    config = settings_file(folder, settings)
    with (
        running_server("--config", config, *ADMIN, environment=directory.environment) as server,
        queuegate.Client(server.address, timeout=60) as client,
        ExitStack() as held,
    ):

        def reload(number: int) -> Any:
            write_policy(policy, number)
            return client.reload(wait=True)

        def invalidate(_: int) -> Any:
            return client.invalidate([_USER], wait=True)

        reload(0)  # waits for the leases of an earlier server process, if there was one
        alone, _ = _timed(reload, range(1, repeats + 1))
        _add(table, "policy, while there are no gates", alone, 0)
        holders = [held.enter_context(_holding(server)) for _ in range(processes)]
        longest = []
        for name, change in (("policy", reload), ("groups of a user", invalidate)):
            seconds, out = _timed(change, range(1, repeats + 1))
            longest.append(_add(table, name, seconds, out))
        waits = []
        for name, disturb, mend in (
            ("policy, a process hangs (SIGSTOP)", signal.SIGSTOP, signal.SIGCONT),
            ("policy, a process is killed", signal.SIGKILL, None),
        ):
            seconds, out = [], 0
            for number in range(faults):
                victim = holders.pop(0)
                victim.send_signal(disturb)
                one, waited_out = _timed(reload, range(1000 + number, 1001 + number))
                seconds += one
                out += waited_out
                if mend is not None:
                    victim.send_signal(mend)
                    time.sleep(1)
                    holders.append(victim)
                else:
                    holders.append(held.enter_context(_holding(server)))
            waits.append(_add(table, name, seconds, out))
    targets = [
        *(
            Target(
                f"a change of {what} in effect, p99", "under 100 ms", f"{reached:.0f} ms",
                reached < _GOAL_MILLISECONDS,
            )
            for what, reached in zip(("the policy", "groups"), longest, strict=True)
        ),
        Target(
            "a change while gates hang or are killed", "within the lease, 5 s",
            f"{max(waits):,.0f} ms", max(waits) <= _LEASE_SECONDS * 1000 + _GOAL_MILLISECONDS,
        ),
    ]  # fmt: skip
    return Part([table], targets)


def write_policy(policy: Path, number: int) -> None:
    queues = "".join(
        f'          - {{name: q{each}, submitacl: "u{number} g{each}"}}\n'
        for each in range(_QUEUES - 1)
    )
    root = f"      - name: root\n        queues:\n{queues}"
    policy.write_text(f"partitions:\n  - name: default\n    queues:\n{root}")


@contextmanager
def _holding(server: RunningServer) -> Iterator["subprocess.Popen[str]"]:
    """Run a process with gates, entered once they decide on their own."""
    command = [sys.executable, "-m", "bench.gate_effect", "--hold", server.address, str(_GATES)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise CannotMeasure("gates did not connect")
            yield process
        finally:
            process.kill()


def _hold(address: str, number: int) -> None:
    with ExitStack() as held:
        gates = [
            held.enter_context(queuegate.Gate(address, name=f"gate {each}", timeout=60))
            for each in range(number)
        ]
        for gate in gates:
            while not gate.decided:
                gate.check(_USER, "root.q0")
        print("they decide", flush=True)
        sys.stdin.read()


def _timed(change: _Change, numbers: range) -> tuple[list[float], int]:
    """Return the seconds of each change, and the number of gates whose leases expired."""
    seconds, out = [], 0
    for number in numbers:
        begin = time.perf_counter()
        out += len(change(number).waited_out)
        seconds.append(time.perf_counter() - begin)
    return seconds, out


def _add(table: Table, name: str, seconds: list[float], out: int) -> float:
    """Add a row. Return the 99th percentile in milliseconds, or the longest of a few."""
    longest = max(seconds) * 1000
    p99 = statistics.quantiles(seconds, n=100)[98] * 1000 if len(seconds) >= 100 else longest
    table.add(
        name, str(len(seconds)), f"{statistics.median(seconds) * 1000:,.1f}", f"{p99:,.1f}",
        f"{longest:,.1f}", str(out),
    )  # fmt: skip
    return p99


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        _hold(sys.argv[2], int(sys.argv[3]))
    else:
        main(measure, __doc__)
