"""Reads the hash-pinned requirement files."""

import re
from pathlib import Path

_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def pinned(path: Path) -> dict[str, str]:
    """Return the versions by normalised name."""
    return dict(_PIN.findall(path.read_text()))
