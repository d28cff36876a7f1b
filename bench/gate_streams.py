"""The cost of many gate streams for a server: memory, processor time while idle, and a barrier.

    python -m bench.gate_streams --hold ADDRESS STREAMS

is the process of the callers. Each stream runs the protocol of a gate, `GateSession`, on one event
loop. It prints a line once all have a lease, and exits at the end of its input.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

import queuegate
from bench.command import CannotMeasure, Scale, main
from bench.gate_effect import write_policy
from bench.processes import cpu_seconds, resident_mib
from bench.results import Part, Table
from queuegate.gate.replica import LocalReplica
from queuegate.gate.session import GateSession, clock
from queuegate.v1 import sync_pb2, sync_pb2_grpc
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

_STREAMS: Final = (100, 1_000)
_ON_A_CONNECTION: Final = 10
_START_SECONDS: Final = 60


def measure(scale: Scale, folder: Path) -> Part:
    """Hold more and more streams, and measure the server."""
    repeats = 5 if scale.is_quick else 30
    seconds = 2.0 if scale.is_quick else 15.0
    table = Table(
        "A server with many streams of gates",
        "One process holds the streams, 10 on a connection, with a policy of 200 queues; each "
        "pings once a second. Resident memory of the server, and processor time of a core while "
        "nothing changes. Milliseconds of a call with `wait`; the callers share the processors "
        "with the server.",
        ("streams", "MiB", "idle", "invalidation, p50", "longest", "policy, p50", "longest",
         "waited out"),
    )  # fmt: skip
    policy = folder / "queues.yaml"
    write_policy(policy, 0)
    most = str(_STREAMS[-1] + 10)
    bounds = [f"--set=sync.streams={most}", f"--set=sync.streams_per_caller={most}"]
    with (
        running_server("--policy", str(policy), *ADMIN, *bounds) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        client.reload(wait=True)  # waits for the leases of earlier server processes
        for streams in (0, *_STREAMS):
            with _holding(server, streams):
                table.add(f"{streams:,}", *_row(server, client, policy, repeats, seconds))
    return Part([table])


def _row(
    server: RunningServer, client: queuegate.Client, policy: Path, repeats: int, seconds: float
) -> Iterator[str]:
    pid = server.process.pid
    before = cpu_seconds(pid)
    time.sleep(seconds)
    yield f"{resident_mib(pid):,.0f}"
    yield f"{(cpu_seconds(pid) - before) / seconds:.0%}"
    waited_out = 0
    for name in ("groups", "policy"):
        times = []
        for number in range(repeats):
            write_policy(policy, number + 1)
            begin = time.perf_counter()
            if name == "groups":
                waited_out += len(client.invalidate(["somebody"], wait=True).waited_out)
            else:
                waited_out += len(client.reload(wait=True).waited_out)
            times.append((time.perf_counter() - begin) * 1_000)
        yield f"{statistics.median(times):,.0f}"
        yield f"{max(times):,.0f}"
    yield str(waited_out)


@contextmanager
def _holding(server: RunningServer, streams: int) -> Iterator[None]:
    """Run a process with streams, from the time each has a lease until it has released it."""
    command = [sys.executable, "-m", "bench.gate_streams", "--hold", server.address, str(streams)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise CannotMeasure("streams did not get a lease")
            yield
            process.communicate()
        finally:
            process.kill()


async def _hold(address: str, streams: int) -> None:
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [
        grpc.aio.insecure_channel(address, options)
        for _ in range(0, max(1, streams), _ON_A_CONNECTION)
    ]
    ending = asyncio.Event()
    callers = [
        _Caller(channels[number // _ON_A_CONNECTION], f"gate {number}") for number in range(streams)
    ]
    tasks = [asyncio.create_task(each.follow(ending)) for each in callers]
    end = clock() + _START_SECONDS
    while not all(each.session.lease_until > clock() for each in callers):
        if clock() > end or any(task.done() for task in tasks):
            sys.exit("a stream has ended, or has no lease")
        await asyncio.sleep(0.1)
    print("all have a lease", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    ending.set()
    await asyncio.gather(*tasks)


class _Caller:
    """A gate without questions."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        self.session = GateSession(LocalReplica(is_complete=True), name)
        self._stream: Any = sync_pb2_grpc.SyncServiceStub(channel).Sync()
        self._outgoing: asyncio.Queue[sync_pb2.SyncRequest] = asyncio.Queue()

    async def follow(self, ending: asyncio.Event) -> None:
        """Keep the state current until the end."""
        self._outgoing.put_nowait(self.session.open())
        sending = asyncio.create_task(self._send(ending))
        async for response in self._stream:
            answer = self.session.receive(response, clock())
            if answer is not None:
                self._outgoing.put_nowait(answer)
        await sending

    async def _send(self, ending: asyncio.Event) -> None:
        next_ping = clock()
        while not ending.is_set():
            if clock() >= next_ping:
                next_ping += self.session.ping_interval
                self._outgoing.put_nowait(self.session.ping(clock()))
            try:
                async with asyncio.timeout(next_ping - clock()):
                    request = await self._outgoing.get()
            except TimeoutError:
                continue
            await self._stream.write(request)
        await self._stream.write(self.session.release(clock()))
        await self._stream.done_writing()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        asyncio.run(_hold(sys.argv[2], int(sys.argv[3])))
    else:
        main(measure, __doc__)
