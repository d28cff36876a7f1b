"""The bearer token that calls bring along."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from queuegate._settings import FilePath

_LOOK_SECONDS: Final = 1.0
_LONGEST: Final = 4096

Metadata = tuple[tuple[str, str], ...]


class TokenFile:
    """A token that is read again when its file changes, at most once a second.

    Any number of threads may use it.
    """

    def __init__(self, path: FilePath, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raises OSError, and ValueError if it holds no token."""
        self._path = Path(path)
        self._clock = clock
        self._metadata = self._read()
        self._look_at = clock() + _LOOK_SECONDS

    @property
    def metadata(self) -> Metadata:
        """What a call brings along: the token of the file, or the last one that it held."""
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + _LOOK_SECONDS
            with suppress(OSError, ValueError):
                self._metadata = self._read()
        return self._metadata

    def _read(self) -> Metadata:
        with self._path.open("rb") as opened:
            content = opened.read(_LONGEST + 1)
        token = content.decode("ascii", "replace").strip()
        # Never repeated in the message: it may be a secret all the same.
        if not token or len(content) > _LONGEST or not all("!" <= sign <= "~" for sign in token):
            raise ValueError(f"token_file {str(self._path)!r} does not hold one token in ASCII")
        return (("authorization", f"Bearer {token}"),)
