"""Looks up users, first in the fleet's shared groups and then using the resolver."""

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.resolver import LookupFailure, Source
from queuegate_server.identity.shared import SharedGroups, SharedResult
from queuegate_server.runtime.single_flight import Flight


class Lookup:
    """Looks up users and caches the results. A result is not cached if, since the lookup started,
    the user has been invalidated or a newer lookup has completed.
    """

    def __init__(self, source: Source, cache: GroupCache, shared: SharedGroups | None) -> None:
        self._source = source
        self._cache = cache
        self._shared = shared

    async def run(self, flight: Flight, min_life: float | None = 0.0) -> CacheEntry:
        """Look up a user; return the cache entry.

        Uses another server's result if its remaining TTL suffices. Otherwise, queries the resolver
        and shares the result.

        Args:
            flight: The lookup, with the user's name as its key.
            min_life: The minimum remaining TTL, in seconds, for using another server's result; None
                to always query the resolver.
        """
        user, cache, shared = flight.key, self._cache, self._shared
        publish = None
        if shared is not None:
            result = None if min_life is None else await shared.get(user)
            if result is not None and result.expires_at - cache.wall() >= (min_life or 0.0):
                # Do not supersede other lookups, because their results may be newer.
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
