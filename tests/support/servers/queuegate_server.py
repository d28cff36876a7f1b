"""A real server process for tests, started on a free port and stopped by its PID."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from tests.support.servers import with_constants
from tests.support.servers.fork_server import ForkServer

START_SECONDS = 100
_SHOWN_LINES = 20
"""How many of the last log lines a failure shows."""
_RUN_SECONDS = 60
_transport = ""
_fork_server: ForkServer | None = None
_forks = False
ADMIN = (
    *("--set", "callers.loopback.roles=check,read,admin,sync"),
    *("--set", "callers.unix.roles=check,read,admin,sync"),
)
"""Arguments of a server whose local callers have all roles."""


@contextmanager
def over(transport: str | None) -> Iterator[None]:
    """Make servers with a single TCP address use a transport. None for the default."""
    global _transport  # noqa: PLW0603 - servers start in many places, and all of them count
    before, _transport = _transport, transport or _transport
    try:
        yield
    finally:
        _transport = before


@contextmanager
def fork_server() -> Iterator[None]:
    """Keep a fork server for the blocks in which servers are forked."""
    global _fork_server  # noqa: PLW0603 - as above
    _fork_server = ForkServer()
    try:
        yield
    finally:
        _fork_server.close()
        _fork_server = None


@contextmanager
def forking(*, forks: bool) -> Iterator[None]:
    """Fork the servers of a block, or start each with an interpreter of its own."""
    global _forks  # noqa: PLW0603 - as above
    before, _forks = _forks, forks
    try:
        yield
    finally:
        _forks = before


class Process(Protocol):
    """What tests use of `subprocess.Popen`."""

    stdout: IO[str] | None
    stderr: IO[str] | None
    returncode: int | None

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


class RunningServer:
    """A server process. Its logs are read from the start: a full pipe would lose lines."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.address = ""
        """Where it serves, once it has announced that."""
        self.example = ""
        """The command that the server prints for asking it a question."""
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> list[str]:
        """The lines on standard error so far."""
        return list(self._errors)

    @property
    def logs(self) -> list[dict[str, Any]]:
        """The log entries so far, as dictionaries."""
        return [json.loads(line) for line in list(self._errors) if line.startswith("{")]

    def wait_for_log(self, event: str, *, count: int = 1, seconds: float = 180) -> dict[str, Any]:
        """Return the `count`-th log entry with that message, once it exists."""
        end, pause = time.monotonic() + seconds, 0.02
        while time.monotonic() < end:
            entries = [entry for entry in self.logs if entry["event"] == event]
            if len(entries) >= count:
                return entries[count - 1]
            time.sleep(pause)
            pause = min(1.2 * pause, 0.1)
        last = self.errors[-_SHOWN_LINES:]
        raise AssertionError(f"{event!r} was not logged {count} times. The last lines: {last}")

    def announcement(self, beginning: str = "") -> str:
        """Return the first line on stdout. If it begins differently, fail with the errors."""
        line = first_line(self.process)
        if line and line.startswith(beginning):
            return line
        self.process.kill()
        self.stop()
        raise AssertionError(f"no start: {line!r} {''.join(self.errors)}")

    def memory(self) -> int:
        """The resident memory in bytes."""
        return resident_memory(self.pid)

    def memory_of_all(self) -> int:
        """The resident memory of the server and of its children that run another program, in bytes.

        A child that has not begun its program shares the server's memory, which counts once.
        """
        total, program = self.memory(), Path(f"/proc/{self.pid}/cmdline").read_bytes()
        for listed in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for child in listed.read_text().split():
                    if Path(f"/proc/{child}/cmdline").read_bytes() != program:
                        total += resident_memory(int(child))
        return total

    def peak_memory(self) -> int:
        """The peak resident memory of the server so far, in bytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [kibibytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(kibibytes) << 10

    def processor_seconds(self) -> float:
        """The processor time used so far, which does not depend on other load on the machine."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, seconds: float = 60) -> int:
        """Send SIGTERM and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self._reader.join(30)
        if self.process.stdout and self.process.stderr:
            self.process.stdout.close()
            self.process.stderr.close()
        return status

    def _read_errors(self) -> None:
        if self.process.stderr:
            self._errors.extend(iter(self.process.stderr.readline, ""))


def server_command(*arguments: str, program: Path | None = None) -> list[str]:
    """Return the command line of `queuegate-server`, or of a substitute program."""
    start = ("-m", "queuegate_server") if program is None else ("-P", str(program))
    return [sys.executable, *start, *arguments]


def start(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    program: Path | None = None,
    new_interpreter: bool = False,
) -> Process:
    """Start a command of `queuegate-server`, or a substitute program, with pipes for its output.

    Constants in `environment` (`with_constants.environment`) count.
    """
    if _fork_server and _forks and program is None and not new_interpreter:
        forked = _fork_server.start(arguments, {**os.environ, **(environment or {})})
        if forked is not None:
            return forked
    if program is None and with_constants.VARIABLE in (environment or {}):
        program = Path(with_constants.__file__)
    return start_command(server_command(*arguments, program=program), environment)


def start_command(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
) -> Process:
    """Start a command with additional variables, and pipes for its output, in a directory."""
    return subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def run(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command of `queuegate-server`, and return its output and exit status."""
    process = start(*arguments, environment=environment)
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as threads:
        streams = [threads.submit(stream.read) for stream in (process.stdout, process.stderr)]
        try:
            status = process.wait(_RUN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output, errors = (stream.result() for stream in streams)
    return subprocess.CompletedProcess(arguments, status, output, errors)


def first_line(process: Process) -> str:
    """Return the first line on stdout. If none comes, the process is killed."""
    assert process.stdout
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    line = process.stdout.readline()
    watchdog.cancel()
    return line


@contextmanager
def running_server(
    *arguments: str,
    listen: Sequence[str] = ("127.0.0.1:0",),
    environment: Mapping[str, str] | None = None,
    program: Path | None = None,
    new_interpreter: bool = False,
) -> Iterator[RunningServer]:
    """Run `queuegate-server serve` and yield it once it serves. Stop it at the end.

    `program` replaces `queuegate-server`. `new_interpreter` is for servers that do not import what
    others import.
    """
    listening = [part for address in listen for part in ("--listen", address)]
    if _transport and len(listen) == 1 and not listen[0].startswith("unix:"):
        listening += ["--set", f"transport={_transport}"]
    process = start(
        *("serve", *listening, *arguments),
        environment=environment,
        program=program,
        new_interpreter=new_interpreter,
    )
    server = RunningServer(process)
    server.address = server.announcement("serving ").rstrip().rpartition(" on ")[2]
    assert process.stdout
    server.example = process.stdout.readline().removeprefix("ask it: ").rstrip()
    try:
        yield server
    finally:
        server.stop()
