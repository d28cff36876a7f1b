"""Bearer tokens: a file of their hashes, and whose token a call brings along."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from queuegate_server.files.followed_files import BadFile, FollowedFiles
from queuegate_server.settings.callers import TOKEN_NAME

MAX_TOKENS: Final = 1_000
"""Each of them is compared with each that comes."""
SHORTEST: Final = 32
"""Characters. Shorter ones are not random enough for a hash without salt."""

_NAME: Final = re.compile(TOKEN_NAME.removesuffix("$") + r"\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Hashes = Sequence[tuple[str, bytes]]


class TokenFile:
    """Whose a token is, by a file that is followed as it changes."""

    def __init__(self, path: Path) -> None:
        """Read the file; raise BadFile."""
        self._hashes: Hashes = ()
        self.changes = 0
        """How often they have changed."""
        self._file = FollowedFiles((path,), lambda read: parse(read[0], path), self._publish)

    @property
    def names(self) -> frozenset[str]:
        """The names that have a token."""
        return frozenset(name for name, _ in self._hashes)

    def look(self) -> None:
        """Read the file now; blocks for ten seconds at most."""
        self._file.look()

    def close(self) -> None:
        """Follow the file no longer."""
        self._file.close()

    def name_of(self, token: str) -> str | None:
        """Return the name of a token, None if it is not valid. Takes equally long for every
        token of one length.
        """
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        found = None
        for name, known in self._hashes:
            if hmac.compare_digest(digest, known):
                found = name
        return found if len(token) >= SHORTEST else None

    def _publish(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self.changes += 1


def parse(content: bytes, path: Path) -> Hashes:
    """Return names and hashes: a line `name:sha256-in-hex` each, `#` begins a comment.

    A name may have several tokens, so that one can take over from another. Raises BadFile.
    """
    hashes: dict[bytes, str] = {}
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, _, digest = entry.partition(":")
        # What stands there is not repeated: it may be a token.
        if not _NAME.match(name) or not _DIGEST.fullmatch(digest):
            raise BadFile(
                f"{path}:{number}: not of the form name:sha256, the hash in 64 lower-case"
                " hexadecimal digits, as `queuegate-server token` prints it"
            )
        if hashes.setdefault(bytes.fromhex(digest), name) != name:
            raise BadFile(f"{path}:{number}: the token is there already, with another name")
    if len(hashes) > MAX_TOKENS:
        raise BadFile(f"{path}: has more than {MAX_TOKENS} tokens")
    return tuple((name, digest) for digest, name in hashes.items())
