"""Bearer tokens: the file of their hashes, and the names that they belong to."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.watcher import BadFile, Files, WatchedValue
from queuegate_server.settings.callers import TOKEN_NAME

MAX_TOKENS: Final = 1_000
"""The maximum number of tokens: that of a call is compared with each of them."""
MIN_LENGTH: Final = 32
"""Characters. Shorter ones are not random enough for a hash without salt."""
_READ_SECONDS: Final = 10.0

_NAME: Final = re.compile(TOKEN_NAME.removesuffix("$") + r"\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Hashes = Sequence[tuple[str, bytes]]


class TokenFile(WatchedValue[tuple[bytes, ...], Hashes]):
    """The names that tokens belong to, loaded again when their file changes."""

    def __init__(self, path: Path) -> None:
        """Read the file; blocks for at most ten seconds. Raises BadFile."""
        super().__init__(Files(path), lambda contents: parse(contents[0], path), _READ_SECONDS)

    @property
    def names(self) -> frozenset[str]:
        """The names that have a token."""
        return frozenset(name for name, _ in self.value)

    def name_of(self, token: str) -> str | None:
        """Return the name of a valid token, in a time that only depends on the token's length."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        names = [name for name, known in self.value if hmac.compare_digest(digest, known)]
        return names[-1] if names and len(token) >= MIN_LENGTH else None


def parse(content: bytes, path: Path) -> Hashes:
    """Return names, each of which may have several tokens, and hashes; `#` begins a comment.

    Raises BadFile.
    """
    hashes: dict[bytes, str] = {}
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, _, digest = entry.partition(":")
        # The line is not quoted: it may be a token.
        if not _NAME.match(name) or not _DIGEST.fullmatch(digest):
            raise BadFile(
                f"{path}:{number}: not of the form name:sha256, the hash in 64 lower-case"
                " hexadecimal digits, as `queuegate-server token` prints it"
            )
        if hashes.setdefault(bytes.fromhex(digest), name) != name:
            raise BadFile(f"{path}:{number}: an earlier line has this token with another name")
    if len(hashes) > MAX_TOKENS:
        raise BadFile(f"{path}: there are more than {MAX_TOKENS} tokens")
    return tuple((name, digest) for digest, name in hashes.items())
