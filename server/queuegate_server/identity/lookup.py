"""Looks up users in the fleet's shared groups and then the resolver, and caches the results."""

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.resolver import LookupFailure, Source
from queuegate_server.identity.shared import SharedGroups, SharedResult
from queuegate_server.runtime.single_flight import Flight


class Lookup:
    """Performs lookups and caches their results, except those of outdated flights."""

    def __init__(self, source: Source, cache: GroupCache, shared: SharedGroups | None) -> None:
        self._source = source
        self._cache = cache
        self._shared = shared

    async def run(self, flight: Flight, min_life: float | None = 0.0) -> CacheEntry:
        """Use another server's result if there is one; otherwise, query the resolver and share the
        result.

        Args:
            flight: The lookup.
            min_life: The minimum remaining TTL required of another server's result, in seconds;
                None: always query the resolver.
        """
        user, cache, shared = flight.key, self._cache, self._shared
        publish = None
        if shared is not None:
            result = None if min_life is None else await shared.get(user)
            if result is not None and result.expires_at - cache.wall() >= (min_life or 0.0):
                # Does not supersede other lookups, whose results may be newer.
                return cache.store(flight, result.outcome, result)
            publish = shared.begin(user)
        outcome = await self._source.resolve(user)
        if isinstance(outcome, LookupFailure):
            return cache.store(flight, outcome)
        if not flight.is_outdated:
            flight.supersede()
        entry = cache.store(flight, outcome)
        if publish is not None:
            publish(SharedResult(outcome, entry.resolved_at_wall, entry.expires_at_wall))
        return entry
