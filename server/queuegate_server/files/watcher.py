"""Rereads files when their contents change.

Daemon threads read the files with a timeout, so a hung file system cannot block the event loop or
keep the process from exiting.
"""

import asyncio
import contextlib
import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from queuegate_server.files.poller import POLLER, Poll
from queuegate_server.files.safe_open import file_status, read_regular
from queuegate_server.runtime.pacing import next_beat
from queuegate_server.runtime.threads import AbandonableThreadPool, ThreadsExhausted

R = TypeVar("R")
Data = bytes | tuple[bytes, ...] | Mapping[str, bytes]
T = TypeVar("T", bound=Data)
T_co = TypeVar("T_co", bound=Data, covariant=True)
V = TypeVar("V")

_LOG = logging.getLogger("queuegate_server.files")
READ_SECONDS: Final = 30.0
MAX_BYTES: Final = 1 << 20
"""The maximum size of a certificate, a key or a token file."""
_MAX_HUNG_THREADS: Final = 4
_MAX_WRITING: Final = 3
"""How many consecutive polls may find a file being written before its contents are read."""


class BadFile(Exception):
    """Raised for a file that cannot be read or used. The message names the file."""


class FileSource(Protocol[T_co]):
    """Files that are read as one unit. All methods block."""

    @property
    def name(self) -> str:
        """The path or paths, for messages."""

    def status(self) -> tuple[int, ...]:
        """Return numbers that usually change with the contents. Must be fast. Raises OSError."""

    def read(self) -> T_co:
        """Return the contents. Raises OSError."""


class OneFile:
    """A source that consists of one file."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Create a source whose contents are truncated to `max_bytes` + 1 bytes."""
        self.name = str(path)
        self._path = path
        self._max_bytes = max_bytes

    def status(self) -> tuple[int, ...]:
        """Return numbers that identify the file's current version."""
        return file_status(self._path)

    def read(self) -> bytes:
        """Return the contents. Raises OSError if the file is unreadable or not a regular file."""
        return read_regular(self._path, self._max_bytes)


class Files:
    """A source that consists of one or more small files, read in order."""

    def __init__(self, *paths: Path) -> None:
        """Create a source named after the first path. Each file may contain at most MAX_BYTES."""
        self.name = str(paths[0])
        self._files = [OneFile(path, MAX_BYTES) for path in paths]

    def status(self) -> tuple[int, ...]:
        """Return numbers that identify the files' current versions."""
        return tuple(number for file in self._files for number in file.status())

    def read(self) -> tuple[bytes, ...]:
        """Return the contents. Raises OSError if a file is unreadable or too large."""
        contents = tuple(file.read() for file in self._files)
        for file, content in zip(self._files, contents, strict=True):
            if len(content) > MAX_BYTES:
                raise OSError(None, f"is larger than {MAX_BYTES} bytes", file.name)
        return contents


class Content(NamedTuple, Generic[T]):
    """A source's contents, with their checksum."""

    data: T
    checksum: str


_UNREADABLE: Final = ""
"""The value that replaces the checksum if the files cannot be read."""


class FileWatcher(Generic[T]):
    """Reads a source, and detects changes since the last read. The files need not exist yet."""

    def __init__(self, source: FileSource[T], seconds: float = READ_SECONDS) -> None:
        """Create a watcher. A read or check that takes longer than `seconds` fails."""
        self.name: Final = source.name
        self._source = source
        self._seconds = seconds
        self._took_too_long = f"reading took longer than {seconds:g} s"
        self._seen = _UNREADABLE
        """The checksum of the last read."""
        self._readers = AbandonableThreadPool(_MAX_HUNG_THREADS, "file-read")
        self._status: tuple[int, ...] | None = None
        """The status in the last poll; empty if it could not be read."""
        self._writing = 0
        self._unchanged: tuple[tuple[int, ...], str] | None = None
        """A status of the files with which their contents had the checksum."""

    def read_first(self, parse: Callable[[T], V]) -> tuple[V, str]:
        """Read and parse the source. Blocks, so call it before the event loop runs.

        Returns the parsed value and the checksum.

        Raises OSError, including on timeout, and any exception raised by `parse`.
        """
        future: Future[tuple[V, str]] = Future()

        def read() -> None:
            try:
                data = self._source.read()
                future.set_result((parse(data), checksum(data)))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=read, name="file-read-first", daemon=True).start()
        try:
            value, self._seen = future.result(self._seconds)
        except TimeoutError:
            raise OSError(None, self._took_too_long, self.name) from None
        return value, self._seen

    async def read(self) -> Content[T]:
        """Read the source. Raises OSError, including on timeout."""
        try:
            content = await self.run_in_thread(self._read)
        except OSError:
            self._seen = _UNREADABLE
            raise
        # Set here rather than in the thread, because an abandoned thread must not change it.
        self._seen = content.checksum
        return content

    async def run_in_thread(self, function: Callable[[], R]) -> R:
        """Call a function whose file accesses may hang. Raises OSError on timeout."""
        return await self._run(self._readers, function)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the contents differ from the last read, until closed.

        A change is noticed within a second. Files are read once they have stopped changing.
        """
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def note_change() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(changed.set)

        poll = Poll(lambda: self._poll(note_change))
        POLLER.add(poll)
        logged = ""
        try:
            while True:
                logged = self._keep_polling(poll, logged)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(next_beat()):
                        await changed.wait()
                if changed.is_set():
                    yield
                    changed.clear()  # the next poll finds what has changed since the last read
        finally:
            POLLER.remove(poll)

    async def _run(self, threads: AbandonableThreadPool, function: Callable[[], R]) -> R:
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await threads.run(None, function)
        except TimeoutError:
            if not limit.expired():
                raise
            message = self._took_too_long
        except ThreadsExhausted:
            message = "earlier attempts to read it are still stuck"
        raise OSError(None, message, self.name)

    def _keep_polling(self, poll: Poll, logged: str) -> str:
        """Keep the poller running, and log why it cannot poll the files. Return the logged error,
        if any.
        """
        error = self._took_too_long if poll.seconds > self._seconds else ""
        try:
            POLLER.keep_running(poll)
        except RuntimeError as fault:
            error = str(fault)
        if error not in {"", logged}:
            fields = {"file": self.name, "error": error}
            _LOG.warning("cannot watch the file for changes", extra=fields)
        return error

    def _read(self) -> Content[T]:
        data = self._source.read()
        return Content(data, checksum(data))

    def _poll(self, note_change: Callable[[], None]) -> bool:
        """Record whether the contents have changed; return whether they are being written. Blocks.

        The contents are read only if the status has changed. A file may be written twice within the
        resolution of its status, so a status is trusted only once it has not changed for a while.
        """
        try:
            status = self._source.status()
        except OSError:
            status = ()
        rests = status == self._status
        self._status = status
        seen = self._seen
        if rests and (status, seen) == self._unchanged:
            return False
        self._writing += 1
        if not rests and self._writing < _MAX_WRITING:
            return True
        self._writing = 0
        try:
            current = self._read().checksum
        except OSError:
            current = _UNREADABLE
        if current != seen:
            note_change()
        elif rests and (current or not status):  # other faults may end without a new status
            self._unchanged = status, seen
        return False


class WatchedValue(Generic[T, V]):
    """The value parsed from the last usable contents of watched files. Thread-safe to read."""

    def __init__(
        self,
        source: FileSource[T],
        parse: Callable[[T], V],
        seconds: float = READ_SECONDS,
    ) -> None:
        """Read and parse the source for the first time. Blocks for at most `seconds`.

        `parse` is called whenever the contents have changed since the last read. It runs in a
        thread, and must raise an exception if the contents are unusable. Raises BadFile if the
        files cannot be read, and any exception raised by `parse`.
        """
        self._parse = parse
        self._watcher = FileWatcher(source, seconds)
        self._one_at_a_time = asyncio.Lock()
        self._last: str
        """The checksum or the error from the last read."""
        try:
            self.value, self._last = self._watcher.read_first(parse)
        except OSError as error:
            raise self._bad_file(error) from None
        self.has_fault = False
        """Whether the last read failed or found unusable contents."""
        self.reloads = 1
        """The number of successful loads, including the first one."""
        self.failures = 0
        """The number of failed reloads."""

    async def watch(self) -> None:
        """Reload whenever the files change, until canceled."""
        async for _ in self._watcher.changes():
            await self.reload()

    async def reload(self) -> None:
        """Reload the files if they have changed. Each failure is logged and counted once."""
        async with self._one_at_a_time:
            fields = {"file": self._watcher.name}
            last = self._last
            try:
                content = await self._watcher.read()
                self._last = content.checksum
                if self._last == last:
                    return
                parse = partial(self._parse, content.data)
                self.value = await self._watcher.run_in_thread(parse)
            except Exception as error:
                self.has_fault = True
                if isinstance(error, OSError):
                    error = self._bad_file(error)
                    self._last = str(error)
                if self._last != last:
                    self.failures += 1
                    fields["error"] = str(error) or type(error).__name__
                    _LOG.error("cannot use the changed file", extra=fields)
                return
            self.has_fault = False
            self.reloads += 1
            _LOG.info("reloaded a changed file", extra=fields)

    def _bad_file(self, error: OSError) -> BadFile:
        return BadFile(f"{error.filename or self._watcher.name}: {error.strerror or error}")


def checksum(content: Data) -> str:
    """Return the SHA-256 checksum of data in one or more parts, in uppercase hexadecimal."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest().upper()
    named = content if isinstance(content, Mapping) else dict(enumerate(content))
    return checksum("\n".join(f"{key}: {checksum(data)}" for key, data in named.items()).encode())
