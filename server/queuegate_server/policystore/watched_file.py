"""Files whose changes are noticed however they come about.

Blocking work runs in daemon threads: a file system that hangs must hold up neither
the event loop nor the end of the process.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, nullcontext, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import watchfiles

from queuegate_server.policystore.sources import PolicyFiles
from queuegate_server.runtime.giving_way import give_way, taking_turns
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.policystore.reloader")
_DEBOUNCE_MILLISECONDS: Final = 300
_LOOK_MILLISECONDS: Final = 1_000
READ_SECONDS: Final = 30.0
"""How long a read, or a look, may take before it fails."""
_HASHED_AT_ONCE: Final = 512 * 1024
"""Bytes, which take about a millisecond."""
_THREADS: Final = 4
"""How many reads, and how many looks, may hang before no other one is begun."""


class Content(NamedTuple):
    """What a file held when it was read."""

    data: bytes
    checksum: str
    """SHA-256 in upper-case hexadecimal."""


class _Seen(NamedTuple):
    """What the file was when it was last read."""

    status: tuple[int, ...]
    """Changes with the file in most cases, and costs nothing to compare."""
    checksum: str


_UNREADABLE: Final = _Seen((), "")


class WatchedFile:
    """A file that may be replaced, deleted, or reached by links. Used from one event loop."""

    def __init__(self, files: PolicyFiles, seconds: float = READ_SECONDS) -> None:
        """Take where the text is, which need not be there, and how long reading may take."""
        self._files = files
        self._seen = _UNREADABLE
        self._seconds = seconds
        self._count = 0
        self._readers = AbandonableThreadPool(_THREADS, "policy-read")
        self._lookers = AbandonableThreadPool(_THREADS, "policy-look")

    async def read(self) -> Content:
        """Read the file, in a thread. Raises OSError, also if reading takes too long."""
        try:
            data, seen = await self._in_time(self._readers, self._read)
        except OSError:
            self._seen = _UNREADABLE
            raise
        # Not in the thread: one that was given up must not say what was seen last.
        self._seen = seen
        return Content(data, seen.checksum)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the file is not what was last read, until closed.

        Watches folders and not the file: Kubernetes swaps the files of a ConfigMap by
        replacing a link beside them, which a watch on the file does not see. What no
        watch sees (a link further up, a network file system, a change before the watch
        began) a look at the file every second does.
        """
        told = ""
        while True:
            try:
                folders = await self._in_time(self._lookers, self._folders)
                noticing = watchfiles.awatch(
                    *folders,
                    watch_filter=None,
                    debounce=_DEBOUNCE_MILLISECONDS,
                    rust_timeout=_LOOK_MILLISECONDS,
                    yield_on_timeout=True,
                    recursive=False,
                )
                async with aclosing(noticing):
                    async for noticed in noticing:
                        differs = self._differs if noticed else self._may_differ
                        if await self._in_time(self._lookers, differs):
                            yield
                        if await self._in_time(self._lookers, self._folders) != folders:
                            break
            except (OSError, RuntimeError) as error:
                if str(error) != told:
                    told = str(error)
                    _LOG.warning("cannot watch the policy's folder", extra={"error": told})
                await asyncio.sleep(_LOOK_MILLISECONDS / 1_000)

    async def _in_time(self, threads: AbandonableThreadPool, function: Callable[[], T]) -> T:
        """Call a function in a thread; raise OSError if it takes too long."""
        self._count += 1
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await threads.run(str(self._count), function)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"reading took longer than {self._seconds:g} s"
        except AllThreadsHang:
            message = "earlier attempts to read it still hang"
        raise OSError(None, message, self._files.name)

    def _read(self) -> tuple[bytes, _Seen]:
        # The status first: one that is too old is looked at once more, that is all.
        status = self._files.status()
        # What is read first, nobody asks about yet.
        with nullcontext() if self._seen is _UNREADABLE else taking_turns():
            data = self._files.read()
            return data, _Seen(status, _checksum(data))

    def _may_differ(self) -> bool:
        """Compare the content only if the status of the file has changed."""
        try:
            unchanged = self._files.status() == self._seen.status
        except OSError:
            unchanged = self._seen is _UNREADABLE
        return not unchanged and self._differs()

    def _differs(self) -> bool:
        """Compare the content with what was last read."""
        seen = self._seen
        try:
            status = self._files.status()
            with taking_turns():
                checksum = _checksum(self._files.read())
        except OSError:
            return seen is not _UNREADABLE
        if checksum != seen.checksum:
            return True
        if self._seen is seen:
            self._seen = _Seen(status, checksum)
        return False

    def _folders(self) -> dict[Path, tuple[int, int]]:
        """Return the folders to watch, with what tells a new one from an old one."""
        folders = {}
        with suppress(OSError):
            for folder in self._files.folders():
                status = folder.stat()
                folders[folder] = status.st_dev, status.st_ino
        return folders


def _checksum(data: bytes) -> str:
    """Hash in parts: where there is one core, calls wait for it meanwhile."""
    found = hashlib.sha256()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        found.update(memoryview(data)[start : start + _HASHED_AT_ONCE])
        give_way()
    return found.hexdigest().upper()
