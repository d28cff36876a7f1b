"""Measures what an idle server costs, beside a bare `grpc.aio` server.

A server may run beside each scheduler, on machines that do other work, so a server without calls
must cost next to nothing.
"""

import time
from pathlib import Path
from typing import Final, NamedTuple

import trustme

from bench import bare, policies, processes
from bench.command import Scale, main
from bench.results import Part, Table, Target

_SECONDS: Final = 20.0
_SETTLE_SECONDS: Final = 3.0
_MAX_PERCENT: Final = 0.8
_MAX_WAKE_UPS: Final = 8.0
_TLS: Final = ("certificate", "key", "client_ca")


class _Figures(NamedTuple):
    """What one idle process did."""

    threads: int
    core_percent: float
    wake_ups: float
    """Voluntary context switches of all its threads, for each second."""


def measure(scale: Scale, folder: Path) -> Part:
    """Let each server run without calls, one after the other."""
    folder.mkdir(exist_ok=True)
    seconds = 5.0 if scale.is_quick else _SECONDS
    table = Table(
        "Idle",
        f"Processes over {seconds:g} s without calls: the share of one core, and how often one of "
        "their threads woke up (voluntary context switches).",
        ("server", "watched files", "threads", "core, %", "wake-ups/s"),
    )
    reached = []
    for name, files, command in _servers(folder):
        figures = _idle(command, folder / name.replace(" ", "-"), seconds)
        table.add(
            name,
            str(files),
            str(figures.threads),
            f"{figures.core_percent:.1f}",
            f"{figures.wake_ups:.1f}",
        )
        reached.append(figures)
    ours = reached[1:]
    return Part(
        [table],
        _targets(max(each.core_percent for each in ours), max(each.wake_ups for each in ours)),
    )


def _servers(folder: Path) -> list[tuple[str, int, list[str]]]:
    """Return the name of each measured server, the number of its files, and its command."""
    answers = folder / "answers"
    answers.mkdir()
    for name in (bare.UNARY, bare.BATCH):
        (answers / name).write_bytes(b"")
    policy = folder / "queues.yaml"
    policy.write_text(policies.to_yaml(policies.generate(policies.SMALL)))
    ca = trustme.CA()
    certificate, key, client_ca = files = [folder / f"{name}.pem" for name in _TLS]
    issued = ca.issue_cert("127.0.0.1")
    certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    ca.cert_pem.write_to_path(client_ca)
    tls = ", ".join(f"{name}_file: {file}" for name, file in zip(_TLS, files, strict=True))
    plain = processes.queuegate(policy)
    with_tls = [*plain, f"--set=ops.tls={{{tls}}}", "--set=ops.listen=127.0.0.1:0"]
    return [
        ("bare grpc.aio", 0, processes.bare(answers)),
        ("queuegate", 1, plain),
        ("queuegate with metrics over TLS", 1 + len(files), with_tls),
        ("queuegate, native", 1, processes.queuegate(policy, "native")),
    ]


def _idle(command: list[str], folder: Path, seconds: float) -> _Figures:
    with processes.running(command, folder) as server:
        time.sleep(_SETTLE_SECONDS)
        used, woken, start = server.cpu_seconds(), _wake_ups(server.pid), time.monotonic()
        time.sleep(seconds)
        elapsed = time.monotonic() - start
        used, woken = server.cpu_seconds() - used, _wake_ups(server.pid) - woken
        threads = len(list(Path(f"/proc/{server.pid}/task").iterdir()))
        return _Figures(threads, 100 * used / elapsed, woken / elapsed)


def _wake_ups(pid: int) -> int:
    """Return the voluntary context switches so far of all threads of a process."""
    return sum(
        int(line.partition(":")[2])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches:")
    )


def _targets(percent: float, wake_ups: float) -> list[Target]:
    return [
        Target(
            "processor time of an idle server",
            f"at most {_MAX_PERCENT:g} % of a core",
            f"{percent:.1f} %",
            percent <= _MAX_PERCENT,
        ),
        Target(
            "wake-ups of an idle server",
            f"at most {_MAX_WAKE_UPS:g} a second",
            f"{wake_ups:.1f}",
            wake_ups <= _MAX_WAKE_UPS,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
