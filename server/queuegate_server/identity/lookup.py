"""A lookup: asks what other servers know, then the resolver, and stores the answer."""

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.resolver import LookupFailure, Source
from queuegate_server.identity.shared import SharedAnswer, SharedGroups
from queuegate_server.runtime.single_flight import Flight


class Lookup:
    """The work of one flight. The cache stores no answer of an outdated flight."""

    def __init__(self, source: Source, cache: GroupCache, shared: SharedGroups | None) -> None:
        self._source = source
        self._cache = cache
        self._shared = shared

    async def run(self, flight: Flight, min_life: float | None = 0.0) -> CacheEntry:
        """Take the answer of another server; otherwise ask the resolver, and share its answer.

        Args:
            flight: The lookup.
            min_life: How long another server's answer must live, in seconds; None: ask the resolver
                in any case.
        """
        user, cache, shared = flight.key, self._cache, self._shared
        publish = None
        if shared is not None:
            known = None if min_life is None else await shared.get(user)
            if known is not None and known.expires_at - cache.wall() >= (min_life or 0.0):
                # Lookups that started earlier may still replace this answer, which may be even
                # older.
                return cache.store(flight, known.outcome, known)
            publish = shared.begin(user)
        outcome = await self._source.resolve(user)
        if isinstance(outcome, LookupFailure):
            return cache.store(flight, outcome)
        if not flight.is_outdated:
            flight.supersede()
        entry = cache.store(flight, outcome)
        if publish is not None:
            publish(SharedAnswer(outcome, entry.resolved_at_wall, entry.expires_at_wall))
        return entry
