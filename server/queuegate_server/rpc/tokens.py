"""Bearer tokens: loads the file of token hashes and identifies a token's owner."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.watcher import BadFile, Files, WatchedValue
from queuegate_server.settings.callers import TOKEN_NAME

MAX_TOKENS: Final = 1_000
"""The maximum number of tokens. Each call's token is compared with all of them."""
MIN_LENGTH: Final = 32
"""The minimum token length in characters. Shorter tokens are too guessable for an unsalted hash."""
_READ_SECONDS: Final = 10.0

_NAME: Final = re.compile(TOKEN_NAME.removesuffix("$") + r"\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Hashes = Sequence[tuple[str, bytes]]


class TokenFile(WatchedValue[tuple[bytes, ...], Hashes]):
    """Token owners and hashes, reloaded when the file changes."""

    def __init__(self, path: Path) -> None:
        """Read the file. Blocks for up to ten seconds. Raises BadFile."""
        super().__init__(Files(path), lambda contents: parse(contents[0], path), _READ_SECONDS)

    @property
    def names(self) -> frozenset[str]:
        """The names of the tokens' owners."""
        return frozenset(name for name, _ in self.value)

    def name_of(self, token: str) -> str | None:
        """Return a token's owner; None if unknown. The timing reveals only the token's length."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        names = [name for name, each in self.value if hmac.compare_digest(digest, each)]
        return names[-1] if names and len(token) >= MIN_LENGTH else None


def parse(content: bytes, path: Path) -> Hashes:
    """Parse `owner:sha256` lines; an owner may have several tokens. Raises BadFile."""
    hashes: dict[bytes, str] = {}
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, _, digest = entry.partition(":")
        # Do not quote the line, because it may contain a token.
        if not _NAME.match(name) or not _DIGEST.fullmatch(digest):
            raise BadFile(
                f"{path}:{number}: not of the form name:sha256, with a hash of 64 lower-case"
                " hexadecimal digits, as printed by `queuegate-server token`"
            )
        if hashes.setdefault(bytes.fromhex(digest), name) != name:
            raise BadFile(f"{path}:{number}: an earlier line has this token under another name")
    if len(hashes) > MAX_TOKENS:
        raise BadFile(f"{path}: there are more than {MAX_TOKENS} tokens")
    return tuple((name, digest) for digest, name in hashes.items())
