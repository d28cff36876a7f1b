"""A server's event loop, its signal handlers, and a watchdog that aborts the process on a hang.

A server whose loop hangs does not even react to SIGTERM. A supervisor, Kubernetes or systemd can
replace it only after its process has exited.
"""

import asyncio
import contextlib
import faulthandler
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Self

from queuegate_server.runtime.pacing import next_beat

_LOG = logging.getLogger("queuegate_server.runtime.event_loop")
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STALL_SECONDS: Final = 60.0
HANG_SECONDS: Final = 300.0
CHECKS: Final = 12
"""How many times the loop is checked while it stalls. More would wake up an idle process."""
_MESSAGE: Final = b"The event loop has not run for a long time; this process ends itself.\n"


class LoopWatchdog:
    """A context manager that prints all stacks and aborts the process if the loop hangs.

    A thread counts its own wake-ups since the loop last ran, so that a suspended process is not
    mistaken for a hang. If the hanging code holds the GIL, this thread cannot run either; in that
    case, a timer in C exits the process with status 1.
    """

    def __init__(
        self, stall_seconds: float = STALL_SECONDS, hang_seconds: float = HANG_SECONDS
    ) -> None:
        self._interval = stall_seconds / CHECKS
        self._hang_seconds = hang_seconds
        self._beats = 0
        self._stop = threading.Event()
        self._output = _standard_error()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._beat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._stop.set()

    def _beat(self) -> None:
        self._beats += 1
        self._timer = self._loop.call_at(next_beat(self._interval), self._beat)

    def _watch(self) -> None:
        last = missed = 0
        armed = -math.inf
        while not self._stop.wait(self._interval):
            # Do not rearm the C timer on each wake-up, because rearming it starts a thread.
            if time.monotonic() - armed >= self._hang_seconds / 4:
                faulthandler.dump_traceback_later(self._hang_seconds, exit=True, file=self._output)
                armed = time.monotonic()
            missed = missed + 1 if self._beats == last else 0
            last = self._beats
            if missed > CHECKS:
                with contextlib.suppress(OSError):
                    os.write(self._output, _MESSAGE)
                faulthandler.dump_traceback(self._output)
                os.abort()
        faulthandler.cancel_dump_traceback_later()
        os.close(self._output)


def run_in_loop(main: Coroutine[object, object, None]) -> None:
    """Run a server's `main` under the watchdog, on uvloop if it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        asyncio.run(_run_watched(main))
    else:
        uvloop.run(_run_watched(main))


async def _run_watched(main: Coroutine[object, object, None]) -> None:
    with LoopWatchdog():
        await main


def handle_signals(
    stop: asyncio.Event,
    reload: asyncio.Event | None = None,
    kill: Callable[[], None] | None = None,
) -> None:
    """Make SIGTERM and SIGINT set `stop`, and SIGHUP set `reload`.

    Without `kill`, a second SIGTERM or SIGINT terminates the process immediately, even while the
    event loop is blocked. With `kill`, the event loop handles the second signal: it calls `kill`,
    then terminates the process.
    """
    loop = asyncio.get_running_loop()

    def restore_defaults() -> None:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def on_stop(number: signal.Signals) -> None:
        if kill is None:
            restore_defaults()
        elif stop.is_set():
            kill()
            restore_defaults()
            os.kill(os.getpid(), number)
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_stop, number)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload.set)


async def run_on(event: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Until cancelled, run `work` each time the event is set. Errors are logged."""
    while True:
        await event.wait()
        event.clear()
        try:
            await work()
        except Exception:
            _LOG.exception("unexpected error")


def _standard_error() -> int:
    """Duplicate standard error, nonblocking if possible so that a full pipe cannot block writes."""
    try:
        return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_APPEND)
    except OSError:  # it is a socket, which cannot be reopened
        return os.dup(2)
