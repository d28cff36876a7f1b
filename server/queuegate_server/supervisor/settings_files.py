"""What was in the settings' file, kept for workers that start later."""

import os
import sys
import tempfile
from typing import IO


class SettingsFiles:
    """Files without a name: that of the start, and that of the last SIGHUP."""

    def __init__(self, content: bytes | None) -> None:
        """Take the content at the start; None if there is no file."""
        self.at_start = self._kept(content)
        """A file descriptor for workers; 0 if there is none."""
        self.changed = 0
        """The same."""

    def change(self, content: bytes | None) -> None:
        """Take the content that holds from now on, and is valid."""
        before, self.changed = self.changed, self._kept(content)
        if before:
            os.close(before)

    def close(self) -> None:
        """Forget them."""
        for descriptor in filter(None, (self.at_start, self.changed)):
            os.close(descriptor)
        self.at_start = self.changed = 0

    def _kept(self, content: bytes | None) -> int:
        if content is None:
            return 0
        with _nameless_file() as file:
            file.write(content)
            file.flush()
            return os.dup(file.fileno())


def _nameless_file() -> IO[bytes]:
    """Return a file in memory where the system has that: the disk may be read-only."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("queuegate-settings"), "wb")
    return tempfile.TemporaryFile()
