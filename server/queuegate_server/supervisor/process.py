"""A worker process as seen by its supervisor."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

from queuegate_server.runtime.sd_notify import SOCKET
from queuegate_server.supervisor.channel import Channel, ChannelError, Handler

_LOG = logging.getLogger("queuegate_server.supervisor")
OPTION: Final = "--worker"
START_TIMEOUT: Final = 60.0
"""The minimum response timeout of a starting worker, in seconds."""
MAX_MISSED_PINGS: Final = 2
"""The number of consecutive missed pings after which a worker is killed."""


class WorkerProcess:
    """A running worker."""

    def __init__(
        self, index: int, process: asyncio.subprocess.Process, handlers: Mapping[str, Handler]
    ) -> None:
        self.index = index
        self.pid = process.pid
        self._process = process
        self.ready = asyncio.Event()
        """Set once the worker is serving."""
        self.lines: Sequence[str] = ()
        """The lines to print at startup."""
        self.failure = ""
        """Why the worker failed to start or was killed."""
        self.was_silent = False
        """Whether the worker was killed because it did not respond."""
        self._closed = asyncio.Event()
        self._channel = Channel(
            {**handlers, "ready": self._on_ready, "failed": self._on_failed}, self._closed.set
        )
        self.request = self._channel.request
        """Sends a request and returns its response. Raises ChannelError."""

    @classmethod
    async def start(
        cls, index: int, spec: Callable[[], Mapping[str, Any]], handlers: Mapping[str, Handler]
    ) -> Self:
        """Run this process's command line again as a worker. Raises OSError.

        Args:
            index: The worker's index.
            spec: Returns the result of `spec_message`. Called only after the channel is open,
                because later changes are sent through it.
            handlers: Handlers for the worker's requests, except `ready` and `failed`.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *sys.orig_argv[1:],
                OPTION,
                stdin=theirs.fileno(),
                # Only the supervisor receives signals from the terminal, and it forwards them.
                process_group=0,
                env={name: text for name, text in os.environ.items() if name != SOCKET},
            )
        worker = cls(index, process, handlers)
        await worker._channel.open(ours)
        with contextlib.suppress(ChannelError):  # the worker has already exited
            worker._channel.send(spec())
        return worker

    async def kill_if_silent(self, seconds: float) -> None:
        """Kill the process once it has not responded for 1 to 1.5 times `seconds`.

        It must miss two consecutive pings. One is not enough, because if the supervisor itself was
        paused, for example with its virtual machine, a ping may time out before its response is
        read.
        """
        loop = asyncio.get_running_loop()
        missed = 0
        while missed < MAX_MISSED_PINGS:
            limit = seconds if self.ready.is_set() else max(seconds, START_TIMEOUT)
            begin = loop.time()
            try:
                await self.request("ping", seconds=limit / MAX_MISSED_PINGS)
            except ChannelError:
                missed += 1
                # Wait for the rest of the interval, because a closed channel fails immediately.
                await asyncio.sleep(begin + limit / MAX_MISSED_PINGS - loop.time())
            else:
                missed = 0
                await asyncio.sleep(seconds / MAX_MISSED_PINGS)
        self.was_silent = True
        self.failure = f"no answer for {limit:g} s"
        fields = {"index": self.index, "pid": self.pid, "seconds": limit}
        _LOG.error("a worker is not responding and will be killed", extra=fields)
        self.kill()

    async def wait(self) -> int:
        """Wait for the process to exit; return its exit status, or -N if signal N killed it."""
        status = await self._process.wait()
        # Wait for the channel to close, because the last message may still be unread.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._closed.wait()
        self._channel.close()
        return status

    async def ended(self, seconds: float) -> bool:
        """Return whether the process has exited. If its channel is closed, wait up to `seconds`."""
        if self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._process.wait()
        return self._process.returncode is not None

    async def stop(self, seconds: float) -> None:
        """Drain the process, and kill it if it has not exited after `seconds`."""
        if self.ready.is_set():
            try:
                await self.request("stop", seconds=min(seconds, 5))
            except ChannelError:
                self._signal(signal.SIGTERM)
        else:
            self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def _on_ready(self, lines: Any) -> None:
        self.lines = [str(line) for line in lines]
        self.ready.set()

    async def _on_failed(self, text: Any) -> None:
        self.failure = str(text)
