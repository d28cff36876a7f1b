"""Rereads files when their contents change.

Daemon threads read the files with a timeout, so a hung file system cannot block the event loop or
keep the process from exiting.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import watchfiles

from queuegate_server.files.safe_open import file_status, read_regular
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
_DEBOUNCE_MILLISECONDS: Final = 300
_POLL_MILLISECONDS: Final = 1_000
_STEP_MILLISECONDS: Final = 100


class BadFile(Exception):
    """Raised for a file that cannot be read or used. The message names the file."""


class FileSource(Protocol[T_co]):
    """Files that are read as one unit. All methods block."""

    @property
    def name(self) -> str:
        """The path or paths, for messages."""

    def folders(self) -> Iterable[Path]:
        """Return the folders to watch for changes."""

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

    def folders(self) -> tuple[Path, ...]:
        """Return the file's folder, and the folder of its link target."""
        return self._path.parent, self._path.resolve().parent

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

    def folders(self) -> set[Path]:
        """Return the folders of the files, and of their link targets."""
        return {folder for file in self._files for folder in file.folders()}

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


class _Version(NamedTuple):
    """The status and checksum of one version of the files."""

    status: tuple[int, ...]
    checksum: str


_UNREADABLE: Final = _Version((), "")


class FileWatcher(Generic[T]):
    """Reads a source, and detects changes since the last read. The files need not exist yet."""

    def __init__(self, source: FileSource[T], seconds: float = READ_SECONDS) -> None:
        """Create a watcher. A read or check that takes longer than `seconds` fails."""
        self.name: Final = source.name
        self._source = source
        self._seconds = seconds
        self._took_too_long = f"reading took longer than {seconds:g} s"
        self._seen = _UNREADABLE
        # The pools are separate so that hung checks cannot use up the threads for reads.
        self._readers = AbandonableThreadPool(_MAX_HUNG_THREADS, "file-read")
        self._checkers = AbandonableThreadPool(_MAX_HUNG_THREADS, "file-check")

    def read_first(self, parse: Callable[[T], V]) -> tuple[V, str]:
        """Read and parse the source. Blocks, so call it before the event loop runs.

        Returns the parsed value and the checksum.

        Raises OSError, including on timeout, and any exception raised by `parse`.
        """
        future: Future[tuple[V, _Version]] = Future()

        def read() -> None:
            try:
                data, version = self._read()
                future.set_result((parse(data), version))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=read, name="file-read-first", daemon=True).start()
        try:
            value, self._seen = future.result(self._seconds)
        except TimeoutError:
            raise OSError(None, self._took_too_long, self.name) from None
        return value, self._seen.checksum

    async def read(self) -> Content[T]:
        """Read the source. Raises OSError, including on timeout."""
        try:
            data, version = await self.run_in_thread(self._read)
        except OSError:
            self._seen = _UNREADABLE
            raise
        # Set here rather than in the thread, because an abandoned thread must not change it.
        self._seen = version
        return Content(data, version.checksum)

    async def run_in_thread(self, function: Callable[[], R]) -> R:
        """Call a function whose file accesses may hang. Raises OSError on timeout."""
        return await self._run(self._readers, function)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the contents differ from the last read, until closed.

        Folders are watched instead of files, because Kubernetes updates a mounted ConfigMap by
        replacing a link next to the files. A check every second detects changes that watches miss:
        to a link in a higher folder, on a network file system, or before the watch started.
        """
        logged = ""
        while True:
            try:
                folders = await self._run(self._checkers, self._folders)
                watch = watchfiles.awatch(
                    *folders,
                    watch_filter=None,
                    debounce=_DEBOUNCE_MILLISECONDS,
                    step=_STEP_MILLISECONDS,
                    rust_timeout=_POLL_MILLISECONDS,
                    yield_on_timeout=True,
                    recursive=False,
                )
                async with aclosing(watch):
                    async for events in watch:
                        changed = self._has_changed if events else self._may_have_changed
                        if await self._run(self._checkers, changed):
                            yield
                        if await self._run(self._checkers, self._folders) != folders:
                            break
            except (OSError, RuntimeError) as error:
                if str(error) != logged:
                    logged = str(error)
                    fields = {"file": self.name, "error": logged}
                    _LOG.warning("cannot watch the file's folder", extra=fields)
                await asyncio.sleep(_POLL_MILLISECONDS / 1_000)

    async def _run(self, threads: AbandonableThreadPool, function: Callable[[], R]) -> R:
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await threads.run(None, function)
        except TimeoutError:
            if not limit.expired():
                raise
            message = self._took_too_long
        except ThreadsExhausted:
            message = "earlier attempts to read it are still hanging"
        raise OSError(None, message, self.name)

    def _read(self) -> tuple[T, _Version]:
        # Read the status first. If the files change before the contents are read, the next check
        # finds a different status and compares contents.
        status = self._source.status()
        data = self._source.read()
        return data, _Version(status, checksum(data))

    def _may_have_changed(self) -> bool:
        """Return whether the contents have changed. Reads them only if the status has changed."""
        try:
            unchanged = self._source.status() == self._seen.status
        except OSError:
            unchanged = self._seen is _UNREADABLE
        return not unchanged and self._has_changed()

    def _has_changed(self) -> bool:
        last = self._seen
        try:
            _, current = self._read()
        except OSError:
            return last is not _UNREADABLE
        if current.checksum != last.checksum:
            return True
        if self._seen is last:
            self._seen = current
        return False

    def _folders(self) -> dict[Path, tuple[int, int]]:
        """Return the folders to watch, with numbers that change when a folder is replaced."""
        folders = {}
        with suppress(OSError):
            for folder in self._source.folders():
                status = folder.stat()
                folders[folder] = status.st_dev, status.st_ino
        return folders


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
