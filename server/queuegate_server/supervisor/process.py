"""A worker process as its supervisor sees it."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from queuegate_server.runtime.sd_notify import SOCKET
from queuegate_server.supervisor.channel import Channel, ChannelError, Handler
from queuegate_server.supervisor.worker_spec import WorkerSpec

_LOG = logging.getLogger("queuegate_server.supervisor")
OPTION: Final = "--worker"
_START_SECONDS: Final = 60.0
"""How long a worker that does not serve yet may be silent, if not longer."""
_MISSES: Final = 2
"""So many questions in a row must go unanswered; they share the time."""


class WorkerProcess:
    """A running worker. Used from one event loop."""

    def __init__(self, index: int, handlers: Mapping[str, Handler]) -> None:
        """Take its index, and what answers its questions besides `ready` and `failed`."""
        self.index = index
        self.ready = asyncio.Event()
        """Set once it serves."""
        self.lines: Sequence[str] = ()
        """What it would print at its start."""
        self.failure = ""
        """Why it could not start, in its own words, or why it was killed."""
        self.was_silent = False
        """Whether it was killed because it did not answer."""
        self._channel = Channel({**handlers, "ready": self._is_ready, "failed": self._has_failed})
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._started.pid

    async def start(self, ports: Sequence[int], settings: int, changed: int) -> None:
        """Run the command line of this process again, as a worker; `settings` and `changed`
        are file descriptors, see Place. Raises OSError.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            place = WorkerSpec(self.index, theirs.fileno(), settings, changed, tuple(ports))
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *sys.orig_argv[1:],
                OPTION,
                str(place),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *filter(None, (settings, changed))],
                # Signals of the terminal are for the supervisor, which hands them on.
                process_group=0,
                env={name: text for name, text in os.environ.items() if name != SOCKET},
            )
        await self._channel.open(ours)
        self._reading = asyncio.create_task(self._channel.run())

    async def ask(self, name: str, value: Any = None, *, seconds: float) -> Any:
        """Ask the worker. Raises ChannelError."""
        return await self._channel.ask(name, value, seconds=seconds)

    async def end_if_silent(self, seconds: float) -> None:
        """Kill the process once it has not answered for so long, half as much more at most.

        It is asked twice before: after a pause of this process itself, such as that of a
        virtual machine, the first limit may pass before the answer is read.
        """
        loop = asyncio.get_running_loop()
        missed = 0
        while missed < _MISSES:
            limit = seconds if self.ready.is_set() else max(seconds, _START_SECONDS)
            begin = loop.time()
            try:
                await self.ask("alive", seconds=limit / _MISSES)
            except ChannelError:
                missed += 1
                # One that is closed says so at once.
                await asyncio.sleep(begin + limit / _MISSES - loop.time())
            else:
                missed = 0
                await asyncio.sleep(seconds / _MISSES)
        self.was_silent = True
        self.failure = f"it did not answer for {limit:g} s"
        fields = {"index": self.index, "pid": self.pid, "seconds": limit}
        _LOG.error("a worker does not answer and is killed", extra=fields)
        self.kill()

    async def wait(self) -> int:
        """Return the exit status once the process has ended; negative: by that signal."""
        status = await self._started.wait()
        if self._reading is not None:
            # What it said last may still have to be read.
            await asyncio.wait({self._reading}, timeout=1)
        self._channel.close()
        return status

    async def stop(self, seconds: float) -> None:
        """Let it drain; kill it if that takes longer."""
        if self.ready.is_set():
            try:
                await self.ask("stop", seconds=min(seconds, 5))
            except ChannelError:
                self._signal(signal.SIGTERM)
        else:
            self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await self._started.wait()
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    @property
    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise AssertionError("start comes first")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        if self._started.returncode is None:
            self._started.send_signal(number)

    async def _is_ready(self, lines: Any) -> None:
        self.lines = [str(line) for line in lines]
        self.ready.set()

    async def _has_failed(self, text: Any) -> None:
        self.failure = str(text)
