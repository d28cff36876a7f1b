"""The invariants, which hold for every fault, checked in one place.

While a fault is made, a process of its own asks the server all the time; at the end it must
have seen no wrong answer and no call that outlived its deadline, and the server must be what
it was before.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import queuegate
from tests.resilience import caller
from tests.support.servers.queuegate_server import RunningServer

DEADLINE = 5.0
SERVING_WITHIN = 5.0
MEMORY_TOLERANCE = 24 << 20
"""Memory that an allocator keeps for later; all faults make a server hold more at times."""
DESCRIPTORS_TOLERANCE = 4
"""A connection that is being replaced, and the file that is being read."""
SETTLING = 60.0
TICK = 0.01

Facts = Sequence[tuple[str, list[str], str, bool]]
Record = Callable[[str, object], None]
FACTS: Facts = (
    ("alice", [], "root.work", True),
    ("mallory", [], "root.work", False),
    ("carol", ["analysts"], "root.work", True),
    ("mallory", ["staff"], "root.work", False),
    ("mallory", [], "root.open", True),
)


def policy(turn: str = "alice") -> str:
    """Return a policy in which the facts hold, and in which `turn` may use root.turn."""
    return (
        "partitions:\n"
        "  - name: default\n"
        "    queues:\n"
        "      - name: root\n"
        "        queues:\n"
        '          - {name: work, submitacl: "alice analysts"}\n'
        '          - {name: open, submitacl: "*"}\n'
        f'          - {{name: turn, submitacl: "{turn}"}}\n'
    )


class Observation:
    """A server under a fault."""

    def __init__(self, server: RunningServer, address: str, record: Record) -> None:
        self.server = server
        """The process; a test that restarts it puts the new one here."""
        self.address = address
        self.report: dict[str, Any] = {}
        self.record = record

    @property
    def outcomes(self) -> dict[str, int]:
        """How many calls of the load ended how."""
        outcomes: dict[str, int] = self.report["outcomes"]
        return outcomes

    @contextmanager
    def expected_to_serve(self) -> Iterator[None]:
        """The fault is over, or the block ends it: within five seconds of the block's begin the
        server reports SERVING and decides.

        Time in which the server was ready to run and the machine did something else does not
        count, nor does time in which the machine did nothing at all.
        """
        begin, pid = time.monotonic(), self.server.pid
        waited = -waited_for_processor(pid) if self.server.process.poll() is None else 0.0
        with Lateness() as lateness:
            yield
            retry = queuegate.Retry(attempts=1)
            with queuegate.Client(self.address, timeout=SERVING_WITHIN, retry=retry) as client:
                while not is_serving(client):
                    assert time.monotonic() - begin < 100, "not serving"
                    time.sleep(0.01)
        seconds = time.monotonic() - begin
        waited = waited_for_processor(self.server.pid) + (waited if self.server.pid == pid else 0)
        assert seconds - max(waited, lateness.seconds) < SERVING_WITHIN
        self.record("serving again, s", round(seconds, 2))


@contextmanager
def under_load(
    server: RunningServer,
    record: Record,
    *,
    facts: Facts = FACTS,
    memory_tolerance: int = MEMORY_TOLERANCE,
) -> Iterator[Observation]:
    """Ask the server during the block, and check the invariants at its end."""
    found = Observation(server, server.address, record)
    with subprocess.Popen(
        [sys.executable, caller.__file__, found.address, str(DEADLINE), json.dumps(facts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as load:
        assert load.stdin
        assert load.stdout
        try:
            assert load.stdout.readline() == "asking\n"
            memory, descriptors = found.server.memory(), count_descriptors(found.server.pid)
            yield found
            expect_at_most(
                lambda: count_descriptors(found.server.pid), descriptors + DESCRIPTORS_TOLERANCE
            )
            expect_at_most(found.server.memory, memory + memory_tolerance)
            record("memory, MiB", f"{memory / 2**20:.0f} → {found.server.memory() / 2**20:.0f}")
            record("descriptors", f"{descriptors} → {count_descriptors(found.server.pid)}")
            output, _ = load.communicate(timeout=100)
        finally:
            load.kill()
    assert load.returncode == 0
    report = found.report = json.loads(output)
    calls = ", ".join(f"{count} {outcome}" for outcome, count in report["outcomes"].items())
    record("calls", calls)
    record("longest call, s", round(report["longest"], 2))
    assert report["wrong"] == [], report["wrong"][:3]
    assert report["late"] == []


def expect_at_most(measure: Callable[[], int], most: int) -> None:
    end = time.monotonic() + SETTLING
    while (now := measure()) > most:
        assert time.monotonic() < end, f"{now} is more than {most}"
        time.sleep(0.05)


def is_serving(client: queuegate.Client) -> bool:
    try:
        return bool(client.check_health()) and client.check("alice", "root.open").allowed
    except queuegate.QueuegateError:
        return False


def allowed(client: queuegate.Client, turn: str) -> bool:
    """Return whether the policy that is served names this user in root.turn."""
    return client.check(turn, "root.turn").allowed


def count_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  only the number matters


def waited_for_processor(pid: int) -> float:
    """Return the seconds in which threads of a process were ready to run and did not."""
    waited = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            waited += int((thread / "schedstat").read_text().split()[1])
    return waited / 1e9


class Lateness:
    """Adds up by how much a thread that only sleeps is woken too late, while the block runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def _measure(self) -> None:
        begin = time.monotonic()
        while not self._ended.wait(TICK):
            now = time.monotonic()
            self.seconds += now - begin - TICK
            begin = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
