"""Runs child processes within limits.

Children are started in a thread by `subprocess.Popen`, which uses vfork. asyncio and uvloop would
fork on the event loop's thread instead. This would run gRPC's fork handlers, in which both the
child and the server can hang.
"""

import math
import os
import resource
import subprocess
import threading
from asyncio import timeout
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.runtime.threads import AbandonableThreadPool

_READ_BYTES: Final = 1 << 18


class OutputTooLong(Exception):
    """The child was killed because its output exceeded the limit."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits for a child process, which is killed if it takes too long or writes too much."""

    seconds: float
    """The maximum wall-clock time."""
    output_bytes: int
    cpu_seconds: int | None = None
    """The CPU time after which SIGXCPU kills the child; None for `seconds` plus one second."""
    memory_bytes: int | None = None
    """The maximum address space. Allocations beyond it fail."""
    niceness: int = 0
    """The increment to this process's niceness."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """The result of a child process that stayed within its wall-clock and output limits."""

    status: int
    """The exit status; -N if signal N killed the child."""
    output: bytearray


async def run(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    text: Iterable[bytes] = (),
    environment: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
) -> ChildResult:
    """Run a program. Kill it if it times out or the caller is cancelled.

    The caller may close `pass_fds` after the call. The child's standard error is discarded.

    Args:
        command: The program's path and its arguments.
        limits: The child's limits.
        text: The child's standard input, in parts. The child must read all of it before its output
            fills the pipe, because no output is read until then.
        environment: The child's environment; None to inherit this process's.
        pass_fds: The descriptors that the child inherits under the same numbers.

    Raises:
        OSError: The program cannot be started.
        TimeoutError: The program ran for too long.
        OutputTooLong: The program wrote too much.
    """

    def start() -> subprocess.Popen[bytes]:
        # Do not use preexec_fn, because it would make Popen use fork instead of vfork.
        return subprocess.Popen(  # noqa: S603
            command,
            bufsize=0,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=tuple(pass_fds),
            # The child must not receive signals from the terminal.
            process_group=0,
        )

    child = _Child(start, limits, text)
    threads = AbandonableThreadPool(1, "child")
    try:
        async with timeout(limits.seconds):
            return await threads.run(None, child.run)
    finally:
        child.kill()
        threads.close()


@dataclass(slots=True)
class _Child:
    """A child process that a thread runs and the event loop may kill."""

    _start: Callable[[], subprocess.Popen[bytes]]
    _limits: ProcessLimits
    _text: Iterable[bytes]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: subprocess.Popen[bytes] | None = None
    _is_killed: bool = False

    def run(self) -> ChildResult:
        with self._lock:
            if self._is_killed:
                raise InterruptedError
            process = self._process = self._start()
        try:
            with process:
                with suppress(ProcessLookupError):
                    _limit(process.pid, self._limits)
                output = self._exchange(process)
                with suppress(ChildProcessError):
                    # Wait without reaping the child, so that `kill` cannot hit a reused process ID.
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                with self._lock:
                    return ChildResult(process.wait(), output)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the child if it is running; if it has not started, prevent it from starting."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def _exchange(self, process: subprocess.Popen[bytes]) -> bytearray:
        """Write the child's input, then read and return its output."""
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        with suppress(BrokenPipeError), process.stdin as stdin:
            for part in self._text:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(stdin.fileno(), rest) :]
        output = bytearray()
        while part := process.stdout.read(_READ_BYTES):
            output += part
            if len(output) > self._limits.output_bytes:
                self.kill()
                raise OutputTooLong(f"more than {self._limits.output_bytes} bytes")
        return output


def _limit(pid: int, limits: ProcessLimits) -> None:
    """Set a child's resource limits. Call this before sending its input."""
    if limits.memory_bytes is not None:
        _lower(pid, resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes)
    # Always limit CPU time, so that a child that outlives this process is killed eventually.
    seconds = limits.cpu_seconds or math.ceil(limits.seconds) + 1
    _lower(pid, resource.RLIMIT_CPU, seconds, seconds + 1)
    _lower(pid, resource.RLIMIT_CORE, 0, 0)
    if limits.niceness:
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + limits.niceness
        os.setpriority(os.PRIO_PROCESS, pid, niceness)


def _lower(pid: int, limit: int, soft: int, hard: int) -> None:
    """Set a limit, capped by the current hard limit."""
    _, most = resource.prlimit(pid, limit)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.prlimit(pid, limit, (soft, hard))
