"""Warns about files that other accounts on this machine may read or change."""

import contextlib
import logging
import stat
from pathlib import Path
from typing import Final

PUBLICLY_WRITABLE: Final = stat.S_IWOTH
PUBLIC: Final = stat.S_IROTH | stat.S_IWOTH

_LOG = logging.getLogger("queuegate_server.files")


def warn_of_mode(path: Path, forbidden: int) -> None:
    """Log a warning if the mode of a file has any of these bits set."""
    with contextlib.suppress(OSError):
        if path.stat().st_mode & forbidden:
            _LOG.warning(
                "any account on this machine can read or change this file:"
                " remove the permission (chmod o-rw)",
                extra={"file": str(path)},
            )
