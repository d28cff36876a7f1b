"""Gates under faults: after a barrier, no answer may come from the state before.

    python -m tests.resilience.sync.faults [MINUTES] [GATES] [SEED]

Meanwhile processes of gates are stopped (SIGSTOP) and killed, connections are cut and refused, the
server is killed and restarted, and the clocks on the wall step. An answer shows the version of the
policy or of the groups that it came from. A fault is one whose call began after a barrier had
returned, and that shows an earlier version.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import queuegate
from queuegate import aio
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

PER_PROCESS: Final = 10
CLOCK: Final = Path(__file__).parent.parent / "wall_clock.c"
PROGRAM: Final = Path(__file__).with_name("asking.py")
VERSIONS: Final = 5_000
STEP: Final = 3_600


class Outcome(NamedTuple):
    """What happened."""

    answers: int
    decided: int
    barriers: int
    waited_out: int
    done: Counter[str]
    stale: list[str]
    """Answers from before a barrier."""


class Run:
    """A server, processes of gates, and the barriers that returned."""

    def __init__(self, folder: Path, gates: int, seed: int, *, wait: bool) -> None:
        self.wait = wait
        self.chance = random.Random(seed)
        self.folder = folder
        self.directory = ScriptedDirectory(folder)
        self.versions = {"p": 0, "g": 0}
        self.barriers: list[tuple[str, int, float]] = []
        self.waited_out = 0
        self.done: Counter[str] = Counter()
        self.port = free_port()
        self.shift = folder / "shift"
        self.shift.write_text("0")
        library = folder / "wall_clock.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, CLOCK], check=True)
        self.clock = {"LD_PRELOAD": str(library), "QG_WALL_CLOCK": str(self.shift)}
        self.proxy = Proxy(self.port)
        self.processes = -(-gates // PER_PROCESS)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.started = 0
        self.write_policy()
        self.answer_groups()
        everything = [f"p{number}" for number in range(VERSIONS)]
        self.directory.answer({"probe": {"groups": everything}})

    def write_policy(self) -> None:
        every = ",".join(f"g{number}" for number in range(VERSIONS))
        queues = [
            {"name": "policy", "submitacl": f" p{self.versions['p']}"},
            {"name": "groups", "submitacl": f" {every}"},
        ]
        root = {"name": "root", "queues": queues}
        policy = {"partitions": [{"name": "default", "queues": [root]}]}
        draft = self.folder / "queues.new"
        draft.write_text(json.dumps(policy))
        draft.replace(self.folder / "queues.yaml")

    def answer_groups(self) -> None:
        self.directory.answer({"member": {"groups": [f"g{self.versions['g']}"]}})

    @contextmanager
    def server(self) -> Iterator[RunningServer]:
        settings = {
            "policy": {"path": str(self.folder / "queues.yaml")},
            "resolvers": {"corp": self.directory.resolver()},
            "partitions": {"default": {"resolver": "corp"}},
        }
        config = settings_file(self.folder, settings)
        environment = self.directory.environment | self.clock
        listen = (f"127.0.0.1:{self.port}",)
        with running_server(
            "--config", config, *ADMIN, listen=listen, environment=environment
        ) as s:
            yield s

    def start_process(self) -> None:
        number = self.started
        self.started += 1
        address = f"127.0.0.1:{self.proxy.port}"
        arguments = [address, str(PER_PROCESS), str(self.folder / f"seen-{number}.json")]
        self.running[number] = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments], env={**os.environ, **self.clock}
        )

    async def change(self, client: aio.Client) -> None:
        """Make another version, wait for the barrier, and note when it returned."""
        kind = self.chance.choice("pg")
        self.versions[kind] += 1
        version = self.versions[kind]
        try:
            if kind == "p":
                self.write_policy()
                result: Any = await client.reload(wait=self.wait, timeout=20)
            else:
                self.answer_groups()
                result = await client.invalidate(["member"], wait=self.wait, timeout=20)
        except queuegate.QueuegateError:
            self.done["change without an answer"] += 1
            return
        self.barriers.append((kind, version, time.monotonic()))
        self.waited_out += bool(result.waited_out)

    async def fault(self) -> None:
        """Do something bad to a part."""
        kind = self.chance.choice(["stop", "stop", "kill", "cut", "cut", "refuse", "clock"])
        self.done[kind] += 1
        number = self.chance.choice([*self.running])
        process = self.running[number]
        if kind == "stop":
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.chance.uniform(0.1, 8))
            process.send_signal(signal.SIGCONT)
        elif kind == "kill":
            process.kill()
            process.wait()
            del self.running[number]
            self.start_process()
        elif kind == "cut":
            self.proxy.drop()
        elif kind == "refuse":
            await self.proxy.refuse()
            await asyncio.sleep(self.chance.uniform(0.1, 7))
            await self.proxy.start()
        else:
            self.shift.write_text(f"{self.chance.choice((-STEP, 0, STEP)):<12}")

    def stale(self) -> tuple[int, int, list[str]]:
        """Return how many answers there were, how many of gates, and those from old states."""
        answers = decided = 0
        found = []
        for path in sorted(self.folder.glob("seen-*.json")):
            seen = json.loads(path.read_text())
            answers += seen["answers"]
            decided += seen["decided"]
            for shown, latest in seen["latest"].items():
                kind, version = shown[:1], int(shown[1:] or -1)
                for promised, least, returned in self.barriers:
                    if promised == kind and version < least and latest > returned:
                        found.append(
                            f"{path.name}: {shown} {latest - returned:.3f} s after {least}"
                        )
                        break
        return answers, decided, found


async def run(minutes: float, gates: int, seed: int, *, wait: bool = True) -> Outcome:
    """Run gates under faults for some minutes; without `wait` there are no barriers."""
    with tempfile.TemporaryDirectory() as folder:
        made = Run(Path(folder), gates, seed, wait=wait)
        await made.proxy.start()
        end = time.monotonic() + 60 * minutes
        try:
            for _ in range(made.processes):
                made.start_process()
            while time.monotonic() < end:
                length = min(made.chance.uniform(15, 45), max(5.0, end - time.monotonic()))
                await _one_server(made, time.monotonic() + length)
            await asyncio.sleep(1)
        finally:
            for process in made.running.values():
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            await made.proxy.close()
        answers, decided, stale = made.stale()
        barriers = len(made.barriers)
        return Outcome(answers, decided, barriers, made.waited_out, made.done, stale)


async def _one_server(made: Run, until: float) -> None:
    """Run a server until then, and kill it."""

    async def faults() -> None:
        while True:
            await asyncio.sleep(made.chance.uniform(0.2, 2))
            await made.fault()

    starting = made.server()
    server = await asyncio.to_thread(starting.__enter__)
    faulty = asyncio.create_task(faults())
    try:
        async with aio.Client(server.address, timeout=20) as client:
            while time.monotonic() < until:
                await made.change(client)
                await asyncio.sleep(made.chance.uniform(0, 0.3))
    finally:
        faulty.cancel()
        with suppress(asyncio.CancelledError):
            await faulty
        for process in made.running.values():
            process.send_signal(signal.SIGCONT)
        with suppress(OSError):
            await made.proxy.start()
        made.done["server killed"] += 1
        server.process.kill()
        await asyncio.to_thread(starting.__exit__, None, None, None)


if __name__ == "__main__":
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    chosen = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    result = asyncio.run(run(length, number, chosen))
    print(f"seed {chosen}, {number} gates, {length:g} minutes: {result.answers} answers,")
    print(f"{result.decided} of them decided by gates; {result.barriers} barriers, of which")
    print(f"{result.waited_out} waited for leases to end; {dict(result.done)}")
    print(f"{len(result.stale)} answers from before a barrier")
    print(*result.stale[:20], sep="\n")
    sys.exit(bool(result.stale))
