"""The audit log: records as JSON lines, written in groups by one thread.

A record is made and written by the thread; whoever hands it over waits for the write under
the policy `block`, and does not under `drop`. What waits is bounded, and so is each wait.
"""

import asyncio
import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from queuegate_server.observe.audit_file import AuditFile, StandardOutput, Target
from queuegate_server.settings.observability import STDOUT, Audit

_LOG = logging.getLogger("queuegate_server.audit")

_OVERHEAD: Final = 512
"""Bytes that a waiting entry costs beside its content."""
_GROUP: Final = 1_048_576
"""Bytes that are written at once, and at least an entry: what waits may be more than the disk has
room for, and than a file may hold."""
_WAIT_SECONDS: Final = 2.0
_SYNC_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.5
_CLOSE_SECONDS: Final = 5.0
_LOG_SECONDS: Final = 10.0
"""How often at most a lasting fault is logged."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode

Records = Callable[[], Iterable[Mapping[str, Any]]]


class CannotAudit(Exception):
    """The audit log cannot be opened; the message says why and what to do."""


class _Entry(NamedTuple):
    records: Records
    number: int
    size: int
    written: "asyncio.Future[bool] | None"
    """Set in the event loop; None if nobody waits."""


@dataclass(slots=True)
class AuditCounts:
    """What became of records since the start."""

    written: int = 0
    dropped: int = 0
    """Lost under the policy `drop`."""
    refused: int = 0
    """Not waited for any longer under the policy `block`: their calls failed."""
    failed_writes: int = 0
    waiting_bytes: int = 0


class AuditLog:
    """Takes records from one event loop."""

    def __init__(self, settings: Audit, target: Target) -> None:
        """Take the settings and where lines go; starts the thread."""
        self.counts = AuditCounts()
        self._settings = settings
        self._blocks = settings.when_unwritable == "block"
        self._target = target
        self._entries: list[_Entry] = []
        self._changed = threading.Condition()
        self._closing = False
        self._writing_since: float | None = None
        self._last_succeeded = True
        self._logged_at = float("-inf")
        self._fault_is_logged = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()

    @property
    def is_writable(self) -> bool:
        """Whether the last write succeeded, and none hangs."""
        return self._last_succeeded and not self._hangs()

    @property
    def failed_rotations(self) -> int:
        """How often a full file could not be put aside."""
        return self._target.failed_rotations

    async def append(self, records: Records, number: int, size: int) -> bool:
        """Record; `records` is called once, in the thread. `number` is how many it makes and
        `size` about how many bytes it holds until then.

        Returns False under the policy `block` if they are not known to be written: when too
        much waits, when the write fails, and when it takes more than two seconds.
        """
        size += _OVERHEAD
        written = self._loop.create_future() if self._blocks else None
        with self._changed:
            full = self.counts.waiting_bytes >= self._settings.buffer
            taken = not full and not self._closing and not (self._blocks and self._hangs())
            if taken:
                self._entries.append(_Entry(records, number, size, written))
                self.counts.waiting_bytes += size
                self._changed.notify()
            elif not self._blocks:
                self.counts.dropped += number
        if not taken:
            self._complain("too much waits to be written")
        if not self._blocks or (taken and written is not None and await self._is_written(written)):
            return True
        self.counts.refused += number
        return False

    async def close(self) -> None:
        """Write what waits, within five seconds, and end the thread."""
        with self._changed:
            dropped = self.counts.dropped
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)
        if self._thread.is_alive() or self.counts.dropped > dropped:
            _LOG.error("records of the audit log are lost: it could not be written at the end")

    def _hangs(self) -> bool:
        """Say whether a write takes so long that nobody needs to wait for the next one."""
        began = self._writing_since
        return began is not None and time.monotonic() - began > _WAIT_SECONDS

    async def _is_written(self, written: "asyncio.Future[bool]") -> bool:
        # The native transport begins a call before there is a task, which a time limit needs.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                return await written
        except TimeoutError:
            self._complain("a write takes too long")
            return False

    def _work(self) -> None:
        """Write groups until closed. Runs in the thread."""
        unsynced_since: float | None = None
        while True:
            with self._changed:
                if not self._entries and not self._closing:
                    self._changed.wait(None if unsynced_since is None else _SYNC_SECONDS)
                group = self._next_group()
                closing = self._closing
            if group:
                self._write_group(group)
                if unsynced_since is None and self._settings.fsync == "interval":
                    unsynced_since = time.monotonic()
            due = unsynced_since is not None and (
                closing or time.monotonic() >= unsynced_since + _SYNC_SECONDS
            )
            if due and self._last_succeeded:
                unsynced_since = None
                self._try(self._target.sync)
            if closing and not group:
                break
        with contextlib.suppress(OSError):
            self._target.close()

    def _next_group(self) -> Sequence[_Entry]:
        """Take the first entries of those that wait."""
        most, size, number = min(_GROUP, self._settings.max_size), 0, 0
        for entry in self._entries:
            size += entry.size
            if number and size > most:
                break
            number += 1
        group, self._entries = self._entries[:number], self._entries[number:]
        return group

    def _write_group(self, group: Sequence[_Entry]) -> None:
        entries = [(entry, _lines(entry)) for entry in group]
        data = b"".join(lines for _, lines in entries if lines is not None)
        succeeded = self._try(lambda: self._write(data))
        while not succeeded and not self._blocks and not self._closing:
            # What waits meanwhile is bounded; what does not fit is dropped and counted.
            time.sleep(_RETRY_SECONDS)
            succeeded = self._try(lambda: self._write(data))
        outcomes = [(entry, succeeded and lines is not None) for entry, lines in entries]
        with self._changed:
            for entry, written in outcomes:
                self.counts.waiting_bytes -= entry.size
                if written:
                    self.counts.written += entry.number
                elif not self._blocks:
                    self.counts.dropped += entry.number
        if self._blocks:
            # The loop may have been closed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_tell, outcomes)

    def _write(self, data: bytes) -> None:
        if not data:
            return
        self._writing_since = time.monotonic()
        try:
            self._target.write(data)
            if self._settings.fsync == "always":
                self._target.sync()
        finally:
            self._writing_since = None

    def _try(self, work: Callable[[], None]) -> bool:
        """Say whether a piece of work succeeded. A fault is counted, and logged at times."""
        try:
            work()
        except OSError as error:
            self.counts.failed_writes += 1
            self._last_succeeded = False
            self._complain(error.strerror or str(error))
            return False
        self._last_succeeded = True
        if self._fault_is_logged:
            self._fault_is_logged = False
            _LOG.warning("the audit log can be written again")
        return True

    def _complain(self, reason: str) -> None:
        now = time.monotonic()
        if now >= self._logged_at + _LOG_SECONDS:
            self._logged_at = now
            self._fault_is_logged = True
            consequence = "calls fail" if self._blocks else "records are dropped"
            _LOG.error(
                "the audit log cannot be written",
                extra={"reason": reason, "consequence": consequence},
            )


def open_audit_log(settings: Audit) -> AuditLog | None:
    """Return the audit log of the settings, None if nothing is to be recorded.

    Needs the running loop. Raises CannotAudit.
    """
    path = settings.path
    if path is None or not settings.is_on:
        return None
    if path == STDOUT:
        if sys.__stdout__ is None:
            raise CannotAudit("-: standard output is closed")
        return AuditLog(settings, StandardOutput())
    try:
        syncs = settings.fsync != "never"
        return AuditLog(settings, AuditFile(path, settings.max_size, settings.keep, syncs=syncs))
    except BlockingIOError:
        raise CannotAudit(
            f"{path}: another process writes this audit log; give each its own `audit.path`"
        ) from None
    except OSError as error:
        raise CannotAudit(f"{path}: {error.strerror or error}") from None


def _tell(outcomes: Iterable[tuple[_Entry, bool]]) -> None:
    for entry, succeeded in outcomes:
        if entry.written is not None and not entry.written.done():
            entry.written.set_result(succeeded)


def _lines(entry: _Entry) -> bytes | None:
    """Return records as lines of ASCII: whatever a name holds, it can end no line. None if
    they cannot be made, which is a fault of ours and must not end the thread.
    """
    try:
        return b"".join(_encode(record).encode() + b"\n" for record in entry.records())
    except Exception:
        _LOG.exception("unexpected error")
        return None
