"""Signal handlers on the event loop: stopping and reloading."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.signals")
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def handle_signals(
    stop: asyncio.Event,
    reload: asyncio.Event | None = None,
    kill: Callable[[], None] | None = None,
) -> None:
    """Have SIGTERM and SIGINT set `stop`, and SIGHUP set `reload`.

    A second SIGTERM or SIGINT ends the process immediately, after a call of `kill` if it is given.
    Without `kill` it does so even while the event loop is blocked.
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
    """Run `work` whenever the event is set, until cancelled.

    However often the event is set while `work` runs, it runs once more. Errors are logged.
    """
    while True:
        await event.wait()
        event.clear()
        try:
            await work()
        except Exception:
            _LOG.exception("unexpected error")
