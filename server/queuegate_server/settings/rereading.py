"""Reads settings again while they hold: a file system that hangs must hold nothing up."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning
from queuegate_server.settings.load import SettingsError

T = TypeVar("T")
_READ_SECONDS: Final = 10.0


class Rereading(Generic[T]):
    """Reads in a thread, which the end of the process does not wait for. Used from one event
    loop.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        """Take what reads, and raises SettingsError."""
        self._read = read
        self._threads = AbandonableThreadPool(1, "settings")

    async def read(self) -> T:
        """Read. Raises SettingsError, also if it takes longer than ten seconds."""
        try:
            async with asyncio.timeout(_READ_SECONDS) as limit:
                return await self._threads.run("settings", self._read)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"reading them took longer than {_READ_SECONDS:g} s"
        except StillRunning:
            message = "an earlier attempt to read them still hangs"
        raise SettingsError([Diagnostic("settings", 0, 0, Severity.ERROR, message)])
