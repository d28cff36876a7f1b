"""Child processes that compute or wait in place of this one, within limits.

They are started by `subprocess.Popen` in a thread, which uses vfork: asyncio and uvloop fork on the
thread of the event loop and run gRPC's fork handlers there, in which a child can stop before it
executes its program, and the whole server with it.
"""

import math
import os
import resource
import subprocess
import threading
from asyncio import timeout
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from queuegate_server.runtime.threads import AbandonableThreadPool

_READ_BYTES: Final = 1 << 18


class OutputTooLong(Exception):
    """A child wrote more than it may and was killed."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Bounds of a child process; it is killed when it exceeds one."""

    seconds: float
    """From the start to the end of the child."""
    output_bytes: int
    cpu_seconds: int | None = None
    """Processor time; the child then ends by SIGXCPU. None: as long as `seconds`."""
    memory_bytes: int | None = None
    """Address space; allocations fail beyond it."""
    niceness: int = 0
    """Added to the niceness of this process."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a child process that ended by itself."""

    status: int
    """The exit status; negative: the signal that ended the child."""
    output: bytearray


async def run(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    text: Iterable[bytes] = (),
    environment: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
) -> Completed:
    """Run a program, which is killed when the time is over or the caller is cancelled.

    Once this function has returned or raised, the descriptors are not used by this process any
    more. What the program writes to standard error is discarded.

    Args:
        command: The path of the program, and its arguments.
        limits: The bounds of the child.
        text: Parts of its standard input. The program must read all of it before it writes more
            than a pipe holds.
        environment: The child's; None: a copy of our own.
        pass_fds: Descriptors that the child inherits under the same numbers.

    Raises:
        OSError: The program cannot be started.
        TimeoutError: It ran for too long.
        OutputTooLong: It wrote too much.
    """

    def start() -> subprocess.Popen[bytes]:
        # No preexec_fn: with one, Popen forks instead of using vfork.
        return subprocess.Popen(  # noqa: S603
            command,
            bufsize=0,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=tuple(pass_fds),
            # Only this process gets the signals of a terminal.
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


class _Child:
    """One child process: a thread runs it, the event loop may kill it."""

    def __init__(
        self,
        start: Callable[[], subprocess.Popen[bytes]],
        limits: ProcessLimits,
        text: Iterable[bytes],
    ) -> None:
        self._start = start
        self._limits = limits
        self._text = text
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def run(self) -> Completed:
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
                    # Does not release the process id, which `kill` may be about to use.
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                with self._lock:
                    return Completed(process.wait(), output)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the child unless it has ended, and never start it if it has not begun."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def _exchange(self, process: subprocess.Popen[bytes]) -> bytearray:
        """Write the input and return the output."""
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
    """Set the limits of a process that waits for its input."""
    if limits.memory_bytes is not None:
        _lower(pid, resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes)
    # Set in any case: it ends a child that has outlived this process.
    seconds = limits.cpu_seconds or math.ceil(limits.seconds) + 1
    _lower(pid, resource.RLIMIT_CPU, seconds, seconds + 1)
    _lower(pid, resource.RLIMIT_CORE, 0, 0)
    if limits.niceness:
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + limits.niceness
        os.setpriority(os.PRIO_PROCESS, pid, niceness)


def _lower(pid: int, limit: int, soft: int, hard: int) -> None:
    """Set a limit, or leave the one that this process has itself if that is lower."""
    _, most = resource.prlimit(pid, limit)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.prlimit(pid, limit, (soft, hard))
