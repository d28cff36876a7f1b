"""Bearer tokens: loads the file of token hashes and identifies a token's owner."""

import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from queuegate_server.files.watcher import MAX_BYTES, BadFile, OneFile, WatchedValue
from queuegate_server.settings.callers import TOKEN_NAME

MAX_TOKENS: Final = 1_000
"""The maximum number of tokens. Each call's token is compared with all of them."""
MIN_LENGTH: Final = 32
"""The minimum token length in characters. Shorter tokens are too guessable for an unsalted hash."""
GRACE_SECONDS: Final = 3.0
"""How long a token is accepted after its line has disappeared, because a file that is being written
is empty or incomplete. Including the time needed to notice the change, a removed token is refused
within five seconds.
"""
_READ_SECONDS: Final = 10.0

_NAME: Final = re.compile(TOKEN_NAME.removesuffix("$") + r"\Z")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Hashes = Sequence[tuple[str, bytes]]


class _Accepted(NamedTuple):
    """A token that is accepted, by its hash."""

    name: str
    digest: bytes
    until: float = math.inf
    """When it expires, on the clock; infinite while it has a line."""


class TokenFile(WatchedValue[bytes, Hashes]):
    """Token owners and hashes, reloaded when the file changes.

    While the file has a fault, the tokens of its last faultless version that still have a line are
    accepted, and no others. The file is not replaced atomically by every editor and script, so
    tokens without a line are accepted for `GRACE_SECONDS` more. An unreadable file changes nothing,
    because it does not show which tokens were removed.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Blocks for up to ten seconds. Raises BadFile.

        `clock` returns monotonic seconds.
        """
        self._path = path
        self._clock = clock
        self._loads = 0
        # Replaced as a whole, because files are parsed in a thread.
        self._accepted: tuple[_Accepted, ...] = ()
        super().__init__(OneFile(path, MAX_BYTES), self._load, _READ_SECONDS)

    @property
    def names(self) -> frozenset[str]:
        """The names of the tokens' owners in the last faultless version of the file."""
        return frozenset(name for name, _ in self.value)

    @property
    def version(self) -> object:
        """A value that changes whenever a token's owner may have changed."""
        now = self._clock()
        return self._loads, sum(each.until <= now for each in self._accepted)

    def name_of(self, token: str) -> str | None:
        """Return a token's owner; None if unknown. The timing reveals only the token's length."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        now = self._clock()
        names = [
            each.name
            for each in self._accepted
            if hmac.compare_digest(digest, each.digest) and now < each.until
        ]
        return names[-1] if names and len(token) >= MIN_LENGTH else None

    def end_grace(self) -> None:
        """Refuse tokens without a line from now on, because an administrator has confirmed that the
        file is complete. Does nothing while the file has a fault, because it may be half-written.
        """
        if self.has_fault:
            return
        self._accepted = tuple(each for each in self._accepted if each.until == math.inf)
        self._loads += 1

    def _load(self, content: bytes) -> Hashes:
        hashes, faults = _parse(content, self._path)
        now = self._clock()
        listed = {*hashes}
        digests = {digest for _, digest in hashes}
        before = [each for each in self._accepted if now < each.until]
        kept = [(each.name, each.digest) for each in before]
        current = [each for each in kept if each in listed] if faults else hashes
        # A line of a removed token is tolerated, but not a token that has a new owner.
        leaving = [
            each._replace(until=min(each.until, now + GRACE_SECONDS))
            for each in before
            if (each.name, each.digest) not in listed and (faults or each.digest not in digests)
        ]
        self._accepted = (*(_Accepted(*each) for each in current), *leaving[:MAX_TOKENS])
        self._loads += 1
        if faults:
            raise BadFile(faults[0])
        return hashes


def _parse(content: bytes, path: Path) -> tuple[Hashes, list[str]]:
    """Return the tokens in the lines that have no fault, and the faults."""
    hashes: dict[bytes, str] = {}
    faults = []
    if len(content) > MAX_BYTES:
        faults.append(f"{path}: is larger than {MAX_BYTES} bytes")
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        name, _, digest = entry.partition(":")
        # Do not quote the line, because it may contain a token.
        if not _NAME.match(name) or not _DIGEST.fullmatch(digest):
            faults.append(
                f"{path}:{number}: not of the form name:sha256, with a hash of 64 lower-case"
                " hexadecimal digits, as printed by `queuegate-server token`"
            )
        elif hashes.setdefault(bytes.fromhex(digest), name) != name:
            faults.append(f"{path}:{number}: an earlier line has this token under another name")
    if len(hashes) > MAX_TOKENS:
        faults.append(f"{path}: there are more than {MAX_TOKENS} tokens")
    return tuple((name, digest) for digest, name in hashes.items()), faults
