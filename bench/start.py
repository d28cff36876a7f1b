"""Measures the startup time of the server, and its memory afterwards."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench import policies, processes
from bench.command import CannotMeasure, Scale, main
from bench.results import Part, Table, Target, spread

_MAX_SECONDS: Final = 0.5
_MAX_MIB: Final = 80
_NO_POLICY: Final = "none: the embedded default"


def measure(scale: Scale, folder: Path) -> Part:
    """Start the server without a configured policy, and with larger ones."""
    folder.mkdir(exist_ok=True)
    table = Table(
        "Start",
        "The time from starting the process until the first health request is answered with "
        "SERVING, and resident memory shortly afterwards. Python's and the packages' files are "
        "in the page cache.",
        ("policy", "starts", "seconds to SERVING", "resident memory, MiB"),
    )
    starts = 3 if scale.is_quick else 10
    seconds, memory = _start(None, starts, folder / "default")
    table.add(_NO_POLICY, str(starts), spread(seconds, ".2f"), spread(memory, ".1f"))
    sizes = {policies.MEDIUM: starts}
    if not scale.is_quick:
        sizes[policies.LARGE] = 1
    for size, times in sizes.items():
        file = folder / f"queues-{size}.yaml"
        file.write_text(policies.to_yaml(policies.generate(size)))
        seconds_large, memory_large = _start(file, times, folder / str(size))
        table.add(
            f"{size:,} queues",
            str(times),
            spread(seconds_large, ".2f"),
            spread(memory_large, ".1f"),
        )
    return Part([table], _targets(seconds, memory))


def _start(policy: Path | None, times: int, folder: Path) -> tuple[list[float], list[float]]:
    """Return the seconds until SERVING and the resident memory of each start."""
    folder.mkdir()
    command = processes.queuegate(policy)
    seconds = []
    memory = []
    # The first one is not counted: it brings files into the page cache.
    for number in range(times + (policy is None)):
        start = time.perf_counter()
        with processes.running(command, folder / str(number)) as server:
            with grpc.insecure_channel(server.address) as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
            seconds.append(time.perf_counter() - start)
            if answer.status != health_pb2.HealthCheckResponse.SERVING:
                raise CannotMeasure(f"the server has announced itself, but health says {answer}")
            memory.append(server.resident_mib())
    return seconds[-times:], memory[-times:]


def _targets(seconds: Sequence[float], memory: Sequence[float]) -> list[Target]:
    start = statistics.median(seconds)
    resident = statistics.median(memory)
    return [
        Target(
            "start to SERVING",
            f"< {_MAX_SECONDS:g} s",
            f"{start:.2f} s",
            start < _MAX_SECONDS,
        ),
        Target(
            "resident memory at start",
            f"< {_MAX_MIB} MiB",
            f"{resident:.1f} MiB",
            resident < _MAX_MIB,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
