"""Sessions for browsers that signed in with a token, and a limit on failed attempts.

A session's token is checked again on each request. A session is therefore valid only as long as its
token, and always has the caller's current rights.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache, TTLCache

from queuegate_server.throttling.token_bucket import TokenBucket

SESSION_SECONDS: Final = 8 * 3600.0
MAX_SESSIONS: Final = 1_000
MAX_SESSIONS_OF_CALLER: Final = 20
"""The maximum number of sessions per caller, so that a program that signs in repeatedly does not
evict other callers' sessions."""
FAILURES_PER_SECOND: Final = 0.2
FAILURES_AT_ONCE: Final = 10
MAX_PEERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Session:
    token: str = field(repr=False)
    caller: str


class Sessions:
    """A bounded store of signed-in browsers' tokens, by session ID."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create an empty session store. `clock` is a monotonic clock, in seconds."""
        self._sessions: TTLCache[str, _Session] = TTLCache(
            MAX_SESSIONS, SESSION_SECONDS, timer=clock
        )
        self._secret = secrets.token_bytes(32)

    def create(self, token: str, caller: str) -> str:
        """Create a session; return its ID. At the limit, delete the caller's oldest session."""
        own = [name for name, each in self._sessions.items() if each.caller == caller]
        for oldest in own[: max(0, len(own) + 1 - MAX_SESSIONS_OF_CALLER)]:
            self.delete(oldest)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = _Session(token, caller)
        return session

    def token(self, session: str) -> str | None:
        """Return a session's token; None if the session does not exist or has expired."""
        entry = self._sessions.get(session)
        return None if entry is None else entry.token

    def delete(self, session: str) -> None:
        """Delete a session, if it exists."""
        self._sessions.pop(session, None)

    def form_token(self, session: str, caller: str) -> str:
        """Return the CSRF token for a caller's forms.

        Args:
            session: The session ID; empty if there is no session.
            caller: The caller's name; empty before sign-in.
        """
        return hmac.digest(self._secret, f"{session}\0{caller}".encode(), hashlib.sha256).hex()

    def is_form_token(self, token: str, session: str, caller: str) -> bool:
        """Return whether a form's CSRF token is valid."""
        expected = self.form_token(session, caller)
        return hmac.compare_digest(token.encode(errors="replace"), expected.encode())


class FailedAttempts:
    """A rate limiter for sign-in attempts with invalid tokens."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create a limiter. `clock` is a monotonic clock, in seconds."""
        self._clock = clock
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(MAX_PEERS)

    def wait(self, peer: str) -> float:
        """Return the seconds until an address may try again; 0 if it may try now."""
        bucket = self._buckets.get(peer)
        return 0.0 if bucket is None else bucket.wait()

    def add(self, peer: str) -> None:
        """Record a failed attempt from an address."""
        bucket = TokenBucket(FAILURES_PER_SECOND, FAILURES_AT_ONCE, self._clock)
        self._buckets.setdefault(peer, bucket).charge()
