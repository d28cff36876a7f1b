"""Reads the hash-pinned requirement files."""

import re
from pathlib import Path

_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def pinned(path: Path) -> dict[str, str]:
    """Return the versions by normalised name."""
    return dict(_PIN.findall(path.read_text()))


def hashes(path: Path) -> dict[str, set[str]]:
    """Return the SHA-256 of all permitted files by normalised name."""
    found: dict[str, set[str]] = {}
    for name, rest in re.findall(r"^([a-z0-9-]+)==((?:.*\\\n)*.*)", path.read_text(), re.MULTILINE):
        found[name] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))
    return found
