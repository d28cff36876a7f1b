"""The lease of a replica's caches: they may answer while it is sure to learn of invalidations.

The end is compared with the clock at each use, not only by a timer: a process that was stopped for
a while must not answer first and notice later.
"""

import math
from collections.abc import Callable


class ReplicaLease:
    """Implements `identity.shared.CacheLease`, for all caches of a replica."""

    __slots__ = ("_on_end", "ends_at", "generation", "max_age")

    def __init__(self) -> None:
        """Start with a lease that does not end."""
        self.ends_at = math.inf
        """When the lease ends, by the monotonic clock of the caches."""
        self.max_age = math.inf
        """Seconds after the start of a lookup for which its answer may be used: fewer while this
        server would not learn of an invalidation."""
        self.generation = 0
        """How many leases have ended. An answer belongs to the lease in which it was asked for."""
        self._on_end: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back whenever a lease ends, before anything is answered."""
        self._on_end.append(callback)

    def end_if_expired(self, now: float) -> bool:
        """End the lease if it has expired, and return whether it has."""
        if now < self.ends_at:
            return False
        self.end()
        return True

    def end(self) -> None:
        """End the lease: everything that is cached must be asked for again before it is used."""
        self.ends_at = math.inf
        self.generation += 1
        for callback in self._on_end:
            callback()
