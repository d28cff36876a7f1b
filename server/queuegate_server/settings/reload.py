"""Reloads a running server's settings, except those that require a restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import BaseModel

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.load import SettingsError
from queuegate_server.settings.model import Settings
from queuegate_server.settings.places import fields_by_key
from queuegate_server.settings.queue_schedulers import Scheduler, Schedulers
from queuegate_server.settings.source_map import error_in

_LOG = logging.getLogger("queuegate_server.settings.reload")
T = TypeVar("T")
READ_TIMEOUT: Final = 10.0
"""The time limit for reading the settings, in seconds."""

_QUEUE_KEYS: Final = ("mode", "controllers", "exempt", "unqueued")
"""The keys of `admission.queues` that change without a restart, besides the schedulers' modes."""

SettingsApplier = Callable[[Settings], Awaitable[object] | None]
"""A function that applies the current settings to a part of the server."""


class SettingsReader(Generic[T]):
    """Reads the settings in a thread, so that a hung file system blocks nothing else.

    The thread does not prevent the process from exiting.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        """Create a reader. `read` raises SettingsError if the settings are invalid."""
        self._read = read
        self._threads = AbandonableThreadPool(1, "settings")

    async def read(self) -> T:
        """Read the settings. Raises SettingsError, including on timeout."""
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                return await self._threads.run("settings", self._read)
        except TimeoutError:
            message = f"reading them took longer than {READ_TIMEOUT:g} s"
        except StillRunning:
            message = "an earlier attempt to read them is still stuck"
        except OSError as error:
            message = f"no thread can be started to read them: {error.strerror}"
        raise SettingsError([error_in("settings", message)])


@dataclass(slots=True, eq=False)
class ConfigReloader:
    """Rereads the settings and applies them, one reload at a time."""

    initial: Settings
    """The settings at startup. Settings that require a restart keep these values."""
    settings: Settings
    """The current settings."""
    reader: SettingsReader[Settings]
    apply: Sequence[SettingsApplier]
    """Functions called in order with the current settings, even if an earlier one fails."""
    report: Callable[[Sequence[Diagnostic], Sequence[str]], None]
    """Called after each reload with the errors in the settings, and with the keys of changed
    settings that require a restart."""
    notifier: Notifier
    """Reports reloads to systemd."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def reload(self) -> None:
        """Reload and apply the settings. Errors are logged, and the affected parts keep their
        settings.
        """
        async with self._lock:
            self.notifier.reloading()
            await self._read_settings()
            for apply in self.apply:
                try:
                    applied = apply(self.settings)
                    if applied is not None:
                        await applied
                except Exception:
                    _LOG.exception("unexpected error")
            self.notifier.ready()

    async def _read_settings(self) -> None:
        try:
            read = await self.reader.read()
        except SettingsError as error:
            for diagnostic in error.diagnostics:
                _LOG.error("settings diagnostic", extra={"diagnostic": str(diagnostic)})
            _LOG.error("settings are not valid; the old ones stay in use")
            self.report(error.diagnostics, ())
            return
        current = with_changes(self.initial, read)
        changed = differences(self.settings, current)
        self.settings = current
        if changed:
            _LOG.info("settings changed", extra={"keys": changed})
        pending = differences(current, read)
        if pending:
            _LOG.warning("changed settings require a restart", extra={"keys": pending})
        self.report((), pending)


def with_changes(running: Settings, read: Settings) -> Settings:
    """Return the running settings, with the changes in `read` that require no restart.

    These are `log`, `drain`, `limits.max_concurrent_calls` up to its value at startup, the `cache`
    of partitions in the running settings, `callers` except for `token_file`, and, of
    `admission.queues` if it is set at startup, `mode`, `controllers`, `exempt`, `unqueued` and the
    modes of schedulers.
    """
    max_calls = min(read.limits.max_concurrent_calls, running.limits.max_concurrent_calls)
    partitions = {
        name: partition.model_copy(update={"cache": read.partitions[name].cache})
        if name in read.partitions
        else partition
        for name, partition in running.partitions.items()
    }
    limits = running.limits.model_copy(update={"max_concurrent_calls": max_calls})
    return running.model_copy(
        update={
            "log": read.log,
            "drain": read.drain,
            "limits": limits,
            "partitions": partitions,
            "callers": read.callers.model_copy(update={"token_file": running.callers.token_file}),
            "admission": _with_queue_changes(running, read),
        }
    )


def _with_queue_changes(running: Settings, read: Settings) -> Admission:
    old, new = running.admission.queues, read.admission.queues
    if old is None or new is None:
        return running.admission
    changed: dict[str, object] = {key: getattr(new, key) for key in _QUEUE_KEYS}
    is_rbac = running.is_rbac(old.partition)
    changed["schedulers"] = _with_modes(old.schedulers, new.schedulers, is_rbac=is_rbac)
    return running.admission.model_copy(update={"queues": old.model_copy(update=changed)})


def _with_modes(running: Schedulers, read: Schedulers, *, is_rbac: bool) -> Schedulers:
    """Return the running schedulers with the modes that `read` gives them, unless these modes do
    not fit the running policy because another setting in `read` requires a restart.
    """
    modes: dict[str, object] = {}
    for name in type(running).model_fields:
        old, new = getattr(running, name), getattr(read, name)
        if isinstance(old, Scheduler) and isinstance(new, Scheduler):
            modes[name] = old.model_copy(update={"mode": new.mode})
    places = [each.model_copy(update={"mode": None}) for each in running.places]
    if places == [each.model_copy(update={"mode": None}) for each in read.places]:
        modes["places"] = read.places
    changed = running.model_copy(update=modes)
    fault = changed.unfit_for_rbac() if is_rbac else changed.overlap()
    return running if fault else changed


def differences(one: Settings, other: Settings) -> list[str]:
    """Return the keys whose values differ, without the values, because these may be secret."""
    return sorted(_differences("", one, other))


def _differences(key: str, one: object, other: object) -> Iterator[str]:
    if one == other:
        return
    first, second = _by_key(one), _by_key(other)
    if first is None or second is None:
        yield key
        return
    for name in first.keys() | second.keys():
        path = f"{key}.{name}" if key else name
        if name in first and name in second:
            yield from _differences(path, first[name], second[name])
        else:
            yield path


def _by_key(value: object) -> dict[str, object] | None:
    """Return the contents of a section or mapping by the keys that users write, or None."""
    if isinstance(value, BaseModel):
        kind = type(value)
        names = zip(fields_by_key(kind), kind.model_fields, strict=True)
        return {key: getattr(value, name) for key, name in names}
    return value if isinstance(value, dict) else None
