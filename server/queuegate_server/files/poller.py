"""Polls all watched files in one thread.

Kernel notifications miss changes on network file systems, and changes to links in parent folders.
The polling thread misses none of them, and wakes up less than twice a second.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_LOG = logging.getLogger("queuegate_server.files")
POLL_SECONDS: Final = 0.75
SETTLE_SECONDS: Final = 0.1
"""How soon the files are polled again while one of them is being written."""
PATIENCE_SECONDS: Final = 1.0
"""How long a poll may run before the other files get another thread."""


class Poll:
    """The regular poll of one file, for a `FilePoller`."""

    def __init__(self, function: Callable[[], bool]) -> None:
        """`function` may block, and returns whether the file is being written."""
        self.function: Final = function
        self.thread: threading.Thread | None = None
        """The thread in which the function is running; None if it is not."""
        self.began = 0.0
        """The monotonic time of the last call."""

    @property
    def seconds(self) -> float:
        """How long the function has been running; 0 if it is not."""
        return 0.0 if self.thread is None else time.monotonic() - self.began


class FilePoller:
    """Runs polls in a daemon thread, and in further ones if a file system does not answer.

    A poll that hangs occupies its thread, and is not repeated before it returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._polls: list[Poll] = []
        self._thread: threading.Thread | None = None
        """The thread that polls. Those before it end when the poll in them returns."""

    def add(self, poll: Poll) -> None:
        """Start to run a poll regularly, in the thread that `keep_running` starts."""
        with self._lock:
            self._polls.append(poll)

    def remove(self, poll: Poll) -> None:
        """Stop running a poll. The thread ends with the last poll."""
        with self._lock:
            self._polls.remove(poll)

    def keep_running(self, poll: Poll) -> None:
        """Start a thread if there is none, or if the poll hangs in it. Call this regularly.

        Raises RuntimeError if no thread can be started.
        """
        with self._lock:
            hangs = poll.seconds > PATIENCE_SECONDS and poll.thread is self._thread
            if self._thread is None or hangs:
                self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="file-poller", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        thread = threading.current_thread()
        while (polls := self._free_polls(thread)) is not None:
            pause = POLL_SECONDS
            for poll in polls:
                poll.began, poll.thread = time.monotonic(), thread
                try:
                    if poll.function():
                        pause = SETTLE_SECONDS
                except Exception:
                    _LOG.exception("unexpected error")
                poll.thread = None
                if self._thread is not thread:  # the poll hung, and another thread has gone on
                    return
            time.sleep(pause)

    def _free_polls(self, thread: threading.Thread) -> list[Poll] | None:
        """Return the polls that do not hang; None if the thread must end."""
        with self._lock:
            if not self._polls and self._thread is thread:
                self._thread = None
            if self._thread is not thread:
                return None
            return [poll for poll in self._polls if poll.thread is None]


POLLER: Final = FilePoller()
