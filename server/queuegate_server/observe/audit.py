"""The audit log: JSON lines, encoded and written in batches by a thread.

With `when_unwritable: block`, calls wait for the write; with `drop`, they do not. The buffer and
all waits are bounded.
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
from queuegate_server.runtime import pauses
from queuegate_server.settings.observability import STDOUT, Audit

_LOG = logging.getLogger("queuegate_server.audit")

ENTRY_OVERHEAD_BYTES: Final = 512
"""The memory used by a buffered entry in addition to its contents."""
MAX_GROUP_BYTES: Final = 1_048_576
"""The maximum size of a write, because the whole buffer might not fit on the disk or in a file."""
WRITE_TIMEOUT: Final = 2.0
"""How long a call waits for its records to be written, in seconds."""
SYNC_INTERVAL: Final = 1.0
"""How often written records are forced to disk, in seconds."""
CLOSE_TIMEOUT: Final = 5.0
"""How long the process waits for buffered records when it ends, in seconds."""
LOG_INTERVAL: Final = 10.0
"""The minimum number of seconds between log lines about the same error."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode

Records = Callable[[], Iterable[Mapping[str, Any]]]


class CannotAudit(Exception):
    """The audit log cannot be opened; the message gives the reason and the remedy."""


class _Entry(NamedTuple):
    records: Records
    number: int
    size: int
    written: "asyncio.Future[bool] | None"
    """Resolved on the event loop once the entry is written; None with `drop`."""


@dataclass(slots=True)
class AuditCounts:
    """Counts of audit records and failed writes since startup."""

    written: int = 0
    """Records written."""
    dropped: int = 0
    """Records lost with `drop`."""
    refused: int = 0
    """Records not written in time with `block`. Their calls failed."""
    failed_writes: int = 0
    """Failed writes, and failed attempts to force records to disk."""
    waiting_bytes: int = 0
    """The memory used by records that are not written yet, in bytes."""


class AuditLog:
    """Buffers records on the event loop and writes them in a thread."""

    def __init__(self, settings: Audit, target: Target) -> None:
        self.counts = AuditCounts()
        self._settings = settings
        self._blocks = settings.when_unwritable == "block"
        self.target = target
        self._entries: list[_Entry] = []
        self._changed = threading.Condition()
        self._closing = False
        self._writing_since: float | None = None
        self._last_succeeded = True
        self._logged_at = float("-inf")
        self._fault_is_logged = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    @property
    def is_writable(self) -> bool:
        """Whether the last write succeeded and the current write, if any, is not stuck."""
        return self._last_succeeded and not self._hangs()

    async def append(self, records: Records, number: int, size: int) -> bool:
        """Append records. With `block`, return False if the buffer is full or the write fails or
        takes longer than WRITE_TIMEOUT; with `drop`, always return True.

        Args:
            records: A function that builds the records. It is called once, in the audit thread.
            number: The number of records.
            size: The approximate memory held by `records` until it is called, in bytes.
        """
        size += ENTRY_OVERHEAD_BYTES
        written = self._loop.create_future() if self._blocks else None
        with self._changed:
            full = self.counts.waiting_bytes >= self._settings.buffer
            accepted = not full and not self._closing and not (self._blocks and self._hangs())
            if accepted:
                self._entries.append(_Entry(records, number, size, written))
                self.counts.waiting_bytes += size
                self._changed.notify()
            elif not self._blocks:
                self.counts.dropped += number
        if not accepted:
            self._log_fault("the buffer is full")
        if written is None or (accepted and await self._is_written(written)):
            return True
        self.counts.refused += number
        return False

    async def close(self) -> None:
        """Write the buffered records and stop the thread, waiting for up to CLOSE_TIMEOUT."""
        with self._changed:
            dropped = self.counts.dropped
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, CLOSE_TIMEOUT)
        if self._thread.is_alive() or self.counts.dropped > dropped:
            _LOG.error("audit records were lost: the audit log could not be written at shutdown")

    def _hangs(self) -> bool:
        """Return whether a write is stuck. If so, `append` must not wait for new writes."""
        began = self._writing_since
        return began is not None and time.monotonic() - began > WRITE_TIMEOUT

    async def _is_written(self, written: "asyncio.Future[bool]") -> bool:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                return await written
        except TimeoutError:
            self._log_fault("writing takes too long")
            return False

    def _run(self) -> None:
        """Write batches in the audit thread until the log is closed."""
        unsynced_since: float | None = None
        while True:
            with self._changed:
                if not self._entries and not self._closing:
                    self._changed.wait(None if unsynced_since is None else SYNC_INTERVAL)
                group = self._next_group()
                closing = self._closing
            if group:
                self._write_group(group)
                if unsynced_since is None and self._settings.fsync == "interval":
                    unsynced_since = time.monotonic()
            due = unsynced_since is not None and (
                closing or time.monotonic() >= unsynced_since + SYNC_INTERVAL
            )
            if due and self._last_succeeded:
                unsynced_since = None
                self._try(self.target.sync)
            if closing and not group:
                break
        with contextlib.suppress(OSError):
            self.target.close()

    def _next_group(self) -> Sequence[_Entry]:
        """Remove and return the oldest entries, up to MAX_GROUP_BYTES (or one larger entry)."""
        most, size, number = min(MAX_GROUP_BYTES, self._settings.max_size), 0, 0
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
            # If the buffer fills up in the meantime, new records are dropped and counted.
            time.sleep(pauses.AUDIT_WRITE.first)
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
            # The event loop may already be closed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_complete, outcomes)

    def _write(self, data: bytes) -> None:
        if not data:
            return
        self._writing_since = time.monotonic()
        try:
            self.target.write(data)
            if self._settings.fsync == "always":
                self.target.sync()
        finally:
            self._writing_since = None

    def _try(self, work: Callable[[], None]) -> bool:
        """Run a file operation; return whether it succeeded. Failures are counted and logged."""
        try:
            work()
        except OSError as error:
            self.counts.failed_writes += 1
            self._last_succeeded = False
            self._log_fault(error.strerror or str(error))
            return False
        self._last_succeeded = True
        if self._fault_is_logged:
            self._fault_is_logged = False
            _LOG.warning("the audit log is writable again")
        return True

    def _log_fault(self, reason: str) -> None:
        now = time.monotonic()
        if now >= self._logged_at + LOG_INTERVAL:
            self._logged_at = now
            self._fault_is_logged = True
            consequence = "calls fail" if self._blocks else "records are dropped"
            _LOG.error(
                "the audit log cannot be written",
                extra={"reason": reason, "consequence": consequence},
            )


def open_audit_log(settings: Audit) -> AuditLog | None:
    """Open the audit log on the running event loop; return None if disabled. Raises CannotAudit."""
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
            f"{path}: another process writes this audit log; give each process its own `audit.path`"
        ) from None
    except OSError as error:
        raise CannotAudit(f"{path}: {error.strerror or error}") from None


def _complete(outcomes: Iterable[tuple[_Entry, bool]]) -> None:
    for entry, succeeded in outcomes:
        if entry.written is not None and not entry.written.done():
            entry.written.set_result(succeeded)


def _lines(entry: _Entry) -> bytes | None:
    """Encode records as ASCII, so that no name contains a line break. Return None on failure."""
    try:
        return b"".join(_encode(record).encode() + b"\n" for record in entry.records())
    except Exception:  # a bug must not stop the thread
        _LOG.exception("unexpected error")
        return None
