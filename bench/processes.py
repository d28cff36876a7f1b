"""The compared servers as processes, and their figures from the kernel."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.command import CannotMeasure

_START_SECONDS = 120
_STOP_SECONDS = 30
_ROOT = Path(__file__).parents[1]
PRODUCT: Final = ("-P", str(_ROOT / "bench" / "product.py"))
"""Arguments of any Python, in any directory, that run `queuegate-server`; see `bench.product`."""
_TICK = os.sysconf("SC_CLK_TCK")
_CORES = sorted(os.sched_getaffinity(0))


class Running:
    """A running server process."""

    def __init__(self, pid: int, address: str) -> None:
        """Wrap a process with this PID and the address that it announced."""
        self.pid = pid
        self.address = address

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads so far, in steps of 10 ms."""
        return cpu_seconds(self.pid)

    def resident_mib(self) -> float:
        """Return its current resident memory."""
        return resident_mib(self.pid)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process so far, in steps of 10 ms."""
    text = Path(f"/proc/{pid}/stat").read_text()
    # The second field is a name in brackets that may contain blanks. Fields 14 and 15 are times.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident_mib(pid: int | None = None) -> float:
    """Return the current resident memory of a process, by default this one."""
    pages = int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def queuegate(policy: Path | None, transport: str = "grpcio") -> list[str]:
    """Return the command for the product's server on a free port."""
    command = [sys.executable, *PRODUCT, "serve", "--listen", "127.0.0.1:0"]
    command += ["--set", f"transport={transport}"]
    return [*command, "--policy", str(policy)] if policy else command


def bare(answers: Path, transport: str = "grpcio") -> list[str]:
    """Return the command for the bare handler; see `bench.bare`."""
    return [sys.executable, "-m", "bench.bare", str(answers), "--transport", transport]


@contextmanager
def running(
    command: list[str],
    folder: Path,
    *,
    on_own_core: bool = False,
    listen: str | None = None,
    extra_environment: Mapping[str, str] | None = None,
    cwd: Path = _ROOT,
) -> Iterator[Running]:
    """Run a server until the end of the block. Its stderr goes to a file in a new folder.

    `on_own_core` gives it the first core, and the others to this process and its later children, so
    that load generators do not get in its way. `listen` is its configured TCP address, if it does
    not announce one itself.
    """
    folder.mkdir()
    if on_own_core:
        _use_cores(slice(0, 1))
    environment = {name: value for name, value in os.environ.items() if "QUEUEGATE" not in name}
    environment.update(extra_environment or {})
    log = folder / "stderr.txt"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            stdout=errors if listen else subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=cwd,
        ) as process,
    ):
        if on_own_core:
            _use_cores(slice(1, None))
        try:
            address = listen or _announced(process, log)
            if listen:
                _wait_until_it_listens(process, listen, log)
            yield Running(process.pid, address)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def free_address() -> str:
    """Return a loopback address on which nobody listens at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _wait_until_it_listens(process: "subprocess.Popen[str]", address: str, log: Path) -> None:
    host, _, port = address.rpartition(":")
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.002)
        else:
            return
    process.kill()
    raise CannotMeasure(f"a server did not start: {log.read_text()[-2000:]}")


def _announced(process: "subprocess.Popen[str]", log: Path) -> str:
    """Return the address in the line `serving … on ADDRESS`."""
    watchdog = threading.Timer(_START_SECONDS, process.kill)
    watchdog.start()
    line = process.stdout.readline() if process.stdout else ""
    watchdog.cancel()
    if not line.startswith("serving "):
        process.kill()
        raise CannotMeasure(f"a server did not start: {line}{log.read_text()}")
    return line.rstrip().rpartition(" on ")[2]


def _use_cores(part: slice) -> None:
    """Restrict this process and its children to some of its cores."""
    os.sched_setaffinity(0, _CORES[part] or _CORES)
