"""What a cache has done, as counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache has done since it was built. All but `entries` only grow."""

    hits: int
    """Groups were there."""
    negative_hits: int
    """It was known that there is no such user."""
    failure_hits: int
    """It was known that the resolver could not be asked a moment ago."""
    stale_hits: int
    """Expired groups were used because the resolver could not be asked."""
    misses: int
    """The resolver had to be waited for."""
    refreshes: int
    """Look-ups of users whose groups were known: ahead of their expiry, or after it."""
    evictions: int
    """Entries that made room for others."""
    invalidated: int
    """Entries dropped on request."""
    outdated: int
    """Answers that were not stored because what they were about was invalidated, or asked
    again, after the question."""
    entries: int
    """Users remembered now, some of whom may have expired."""
