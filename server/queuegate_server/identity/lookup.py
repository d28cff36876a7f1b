"""A lookup: asks what other servers know, then the resolver, and stores the answer."""

from typing import Final

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.resolver import LookupFailed, Source
from queuegate_server.identity.shared import SharedAnswer, SharedGroups
from queuegate_server.runtime.single_flight import Flight

REFRESH_LIFE: Final = 0.5
"""A refresh takes the answer of another server that lives for this part of a lifetime at least."""


class Lookup:
    """What one flight does. The cache stores no answer of a flight that has been outdated."""

    def __init__(self, source: Source, cache: GroupCache, shared: SharedGroups | None) -> None:
        """Ask `source` for what `shared` does not have; `cache` keeps the answers."""
        self._source = source
        self._cache = cache
        self._shared = shared

    async def run(self, flight: Flight, min_life: float = 0.0) -> CacheEntry:
        """Take the answer of another server if it lives for `min_life` seconds at least; otherwise
        ask the resolver.
        """
        if self._shared is not None:
            answer = await self._shared.get(flight.key)
            if answer is not None and answer.expires_at - self._cache.wall() >= min_life:
                # Lookups that started earlier may still replace it: it may be older than they are.
                return self._cache.store(flight, answer.outcome, answer)
        return await self.ask(flight)

    async def refresh(self, flight: Flight) -> CacheEntry:
        """Do the same for a user whose groups are known."""
        return await self.run(flight, self._cache.options.positive_ttl * REFRESH_LIFE)

    async def ask(self, flight: Flight) -> CacheEntry:
        """Ask the resolver, and store its answer here and for other servers."""
        publish = None if self._shared is None else self._shared.begin(flight.key)
        outcome = await self._source.resolve(flight.key)
        if isinstance(outcome, LookupFailed):
            return self._cache.store(flight, outcome)
        if not flight.is_outdated:
            flight.supersede()
        entry = self._cache.store(flight, outcome)
        if publish is not None:
            publish(SharedAnswer(outcome, entry.resolved_at_wall, entry.expires_at_wall))
        return entry
