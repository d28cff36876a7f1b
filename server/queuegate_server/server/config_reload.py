"""Reloading the configuration on SIGHUP: settings that may change, then everything they affect."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.settings.load import SettingsError
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import SettingsReader, differences, with_changes

_LOG = logging.getLogger("queuegate_server.server.config_reload")

ApplySettings = Callable[[Settings], Awaitable[object] | None]
"""Applies the current settings to a part of the server."""


class ConfigReloader:
    """Reads the settings again and applies them, one reload at a time."""

    def __init__(
        self,
        initial: Settings,
        current: Settings,
        read: Callable[[], Settings] | None,
        apply: Sequence[ApplySettings],
        notifier: Notifier,
    ) -> None:
        """Set up reloads.

        Args:
            initial: The settings that the service started with, which bound what may change.
            current: The settings after earlier reloads.
            read: Reads the settings again, if they can be read again.
            apply: Called with the current settings, in this order, even after one has failed.
            notifier: Reports reloads to systemd.
        """
        self.settings = current
        """The current settings."""
        self._initial = initial
        self._reader = None if read is None else SettingsReader(read)
        self._apply = apply
        self._notifier = notifier
        self._lock = asyncio.Lock()

    async def reload(self) -> None:
        """Reload everything. Errors are logged, and the affected part stays as it was."""
        async with self._lock:
            self._notifier.reloading()
            await self._read_settings()
            for apply in self._apply:
                try:
                    applied = apply(self.settings)
                    if applied is not None:
                        await applied
                except Exception:
                    _LOG.exception("unexpected error")
            self._notifier.ready()

    async def _read_settings(self) -> None:
        if self._reader is None:
            return
        try:
            read = await self._reader.read()
        except SettingsError as error:
            for diagnostic in error.diagnostics:
                _LOG.error("finding in the settings", extra={"finding": str(diagnostic)})
            _LOG.error("settings are not valid; the old ones stay")
            return
        current = with_changes(self._initial, read)
        changed = differences(self.settings, current)
        self.settings = current
        if changed:
            _LOG.info("settings are replaced", extra={"keys": changed})
        pending = differences(current, read)
        if pending:
            _LOG.warning("settings need a restart to change", extra={"keys": pending})
