"""What SIGHUP does: reads the settings again, applies what can change, and tells the rest."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.settings.load import SettingsError
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import SettingsReader, differences, with_changes

_LOG = logging.getLogger("queuegate_server.server.config_reload")

OnHangup = Callable[[Settings], Awaitable[object] | None]
"""Applies the settings that hold from now on. One that raises does not stop the others."""


class Hangup:
    """Runs one at a time, whoever asks. Used from one event loop."""

    def __init__(
        self,
        settings: Settings,
        holding: Settings,
        reread: Callable[[], Settings] | None,
        notifier: Notifier,
    ) -> None:
        """Take the settings at the start, those that hold by now, and what reads them again
        from where they came.
        """
        self.settings = holding
        """The settings that hold."""
        self.on_hangup: list[OnHangup] = []
        """What is to be done, in this order."""
        self._started_with = settings
        self._rereading = None if reread is None else SettingsReader(reread)
        self._notifier = notifier
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Do all of it. Faults are logged, and what is at fault stays as it was."""
        async with self._one_at_a_time:
            self._notifier.reloading()
            await self._read_settings()
            for apply in self.on_hangup:
                try:
                    done = apply(self.settings)
                    if done is not None:
                        await done
                except Exception:
                    _LOG.exception("unexpected error")
            self._notifier.ready()

    async def _read_settings(self) -> None:
        if self._rereading is None:
            return
        try:
            read = await self._rereading.read()
        except SettingsError as error:
            for problem in error.problems:
                _LOG.error("finding in the settings", extra={"finding": str(problem)})
            _LOG.error("settings are not valid; the old ones stay")
            return
        holding = with_changes(self._started_with, read)
        changed = differences(self.settings, holding)
        self.settings = holding
        if changed:
            _LOG.info("settings are replaced", extra={"keys": changed})
        waiting = differences(holding, read)
        if waiting:
            _LOG.warning("settings need a restart to change", extra={"keys": waiting})
