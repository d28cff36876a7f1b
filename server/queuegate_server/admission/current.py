"""The settings that reviews are decided with now, and how they are replaced."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from queuegate_server.admission.settings import AdmissionSettings, SettingsError, read_settings
from queuegate_server.admission.watch import on_change
from queuegate_server.files.configmap import overlaid
from queuegate_server.runtime.threads import AbandonableThreadPool

_LOG = logging.getLogger("queuegate_server.admission")


class CurrentSettings:
    """Reads the mounted ConfigMaps; keeps the old settings if the new ones are not valid.

    Used from one event loop.
    """

    def __init__(
        self,
        folders: tuple[Path, ...],
        environment: Mapping[str, str],
        reloaded: Callable[[bool], None],
    ) -> None:
        """Read the settings, defaults' folder first; tell `reloaded` how later reads went.

        Raises SettingsError.
        """
        self._folders = folders
        self._environment = environment
        self._reloaded = reloaded
        # Not those of the event loop: a file system that hangs must not hold up its end.
        self._reader = AbandonableThreadPool(1, "settings-read")
        self._values: Mapping[str, bytes] | None = self._read()
        """What was read last; None if it could not be read."""
        self._settings = self._parse(self._values)

    @property
    def settings(self) -> AdmissionSettings:
        """The settings; always valid."""
        return self._settings

    async def reload(self) -> None:
        """Read again. What was read before is nothing new, and not told."""
        before, self._values = self._values, None
        try:
            self._values = values = await self._reader.run("read", self._read)
            if values == before:
                return
            settings = await asyncio.to_thread(self._parse, values)
        except SettingsError as error:
            self._reloaded(False)
            _LOG.error(
                "admission settings are not valid; the last good ones stay",
                extra={"faults": list(error.faults)},
            )
            return
        self._reloaded(True)
        if settings != self._settings:
            self._settings = settings
            _LOG.info("admission settings are replaced")

    async def watch(self) -> None:
        """Read again whenever a folder changes, until cancelled."""
        await on_change(self._folders, self.reload)

    def _read(self) -> Mapping[str, bytes]:
        try:
            return overlaid(self._folders)
        except OSError as error:
            raise SettingsError((f"{error.filename}: cannot be read: {error.strerror}",)) from None

    def _parse(self, values: Mapping[str, bytes]) -> AdmissionSettings:
        try:
            texts = {key: value.decode("utf-8") for key, value in values.items()}
        except UnicodeDecodeError:
            raise SettingsError(("a key of the ConfigMaps is not UTF-8",)) from None
        return read_settings(texts, self._environment)
