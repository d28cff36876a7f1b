"""Work that signals ask for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

_LOG = logging.getLogger("queuegate_server.runtime.signals")


async def each_time(asked: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Work whenever the event is set, until cancelled: once more for all the times it was set
    meanwhile, however many signals come.
    """
    while True:
        await asked.wait()
        asked.clear()
        try:
            await work()
        except Exception:
            _LOG.exception("unexpected error")
