"""Gates whose processes, server, connections and clocks fail: after a barrier, no answer may come
from the state before.

Processes of gates are asked all the time. The policy and the groups change all the time; an answer
shows the version of the policy or of the groups that it came from.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import queuegate
from queuegate import aio
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.faults import Barriers, Tally
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

PER_PROCESS: Final = 10
CLOCK: Final = Path(__file__).parent.parent / "wall_clock.c"
PROGRAM: Final = Path(__file__).with_name("asking.py")
VERSIONS: Final = 5_000
STEP: Final = 3_600
"""Seconds by which a clock on the wall steps."""
LONGEST: Final = 8.0
"""Seconds that a fault may last."""


class Gates:
    """A server, processes of gates, and changes all the time."""

    def __init__(self, folder: Path, chance: random.Random, gates: int, *, wait: bool) -> None:
        self.wait = wait
        self.chance = chance
        self.folder = folder
        self.tally = Tally()
        self.barriers = Barriers(self.tally)
        self.directory = ScriptedDirectory(folder)
        self.versions = {"p": 0, "g": 0}
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
        self._starting: AbstractContextManager[RunningServer] | None = None
        self._server: RunningServer | None = None
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

    async def start_server(self) -> None:
        settings = {
            "policy": {"path": str(self.folder / "queues.yaml")},
            "resolvers": {"corp": self.directory.resolver()},
            "partitions": {"default": {"resolver": "corp"}},
        }
        config = settings_file(self.folder, settings)
        environment = self.directory.environment | self.clock
        listen = (f"127.0.0.1:{self.port}",)
        self._starting = running_server(
            "--config", config, *ADMIN, listen=listen, environment=environment
        )
        self._server = await asyncio.to_thread(self._starting.__enter__)

    async def kill_server(self) -> None:
        if self._server is not None and self._starting is not None:
            self._server.process.kill()
            await asyncio.to_thread(self._starting.__exit__, None, None, None)
        self._server = None

    def start_process(self) -> None:
        number = self.started
        self.started += 1
        address = f"127.0.0.1:{self.proxy.port}"
        arguments = [address, str(PER_PROCESS), str(self.folder / f"seen-{number}.json")]
        self.running[number] = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments], env={**os.environ, **self.clock}
        )

    def kill_process(self, number: int) -> None:
        process = self.running.pop(number)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    async def keep_changing(self) -> None:
        """Change the policy or the groups, again and again, each time with a barrier."""
        async with aio.Client(f"127.0.0.1:{self.port}", timeout=20) as client:
            while True:
                await self._change(client)
                await asyncio.sleep(self.chance.uniform(0, 0.3))

    async def _change(self, client: aio.Client) -> None:
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
        except queuegate.QueuegateError as error:
            self.tally.failed[type(error).__name__] += 1
            return
        self.barriers.returned(kind, version)
        self.tally.waited_out += bool(result.waited_out)

    async def round(self, fault: "Fault") -> None:
        """Let a fault last for a while. What changes changes all the time."""
        await asyncio.sleep(self.chance.uniform(0.2, 2))
        async with fault(self):
            await asyncio.sleep(self.chance.uniform(0.1, LONGEST))

    def judge(self) -> None:
        """Compare what the processes have seen with what the barriers promised."""
        for path in sorted(self.folder.glob("seen-*.json")):
            seen = json.loads(path.read_text())
            self.tally.answers += seen["answers"]
            self.tally.decided += seen["decided"]
            for shown, latest in seen["latest"].items():
                self.barriers.judge(path.name, shown[:1], int(shown[1:] or -1), latest)


Fault = Callable[[Gates], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def process_stopped(gates: Gates) -> AsyncIterator[None]:
    """SIGSTOP of a process of gates, which resumes as if nothing had happened."""
    process = gates.running[gates.chance.choice([*gates.running])]
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


@asynccontextmanager
async def process_killed(gates: Gates) -> AsyncIterator[None]:
    """A kill of a process of gates, which another one replaces."""
    gates.kill_process(gates.chance.choice([*gates.running]))
    gates.start_process()
    yield


@asynccontextmanager
async def connections_cut(gates: Gates) -> AsyncIterator[None]:
    """All connections of gates end."""
    gates.proxy.drop()
    yield


@asynccontextmanager
async def connections_refused(gates: Gates) -> AsyncIterator[None]:
    """All connections of gates end, and there are no new ones."""
    await gates.proxy.refuse()
    yield
    await gates.proxy.start()


@asynccontextmanager
async def clock_stepped(gates: Gates) -> AsyncIterator[None]:
    """The clocks on the wall step, and stay so."""
    gates.shift.write_text(f"{gates.chance.choice((-STEP, 0, STEP)):<12}")
    yield


@asynccontextmanager
async def server_killed(gates: Gates) -> AsyncIterator[None]:
    """A kill of the server, which starts again at once."""
    await gates.kill_server()
    await gates.start_server()
    yield


FAULTS: Final[Mapping[str, Fault]] = {
    "process-stopped": process_stopped,
    "process-killed": process_killed,
    "connections-cut": connections_cut,
    "connections-refused": connections_refused,
    "clock-stepped": clock_stepped,
    "server-killed": server_killed,
}
TABLES: Final = (FAULTS,)


@asynccontextmanager
async def running(
    folder: Path,
    chance: random.Random,
    table: Mapping[str, Fault] = FAULTS,
    *,
    gates: int = 100,
    wait: bool = True,
) -> AsyncIterator[Gates]:
    """Run a server with gates that are asked all the time; without `wait` there are no barriers."""
    system = Gates(folder, chance, gates, wait=wait)
    await system.proxy.start()
    try:
        await system.start_server()
        for _ in range(system.processes):
            system.start_process()
        changing = asyncio.create_task(system.keep_changing())
        try:
            yield system
            assert not changing.done(), changing
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)
        await asyncio.sleep(1)
        system.judge()
    finally:
        for number in [*system.running]:
            system.kill_process(number)
        await system.kill_server()
        await system.proxy.close()
