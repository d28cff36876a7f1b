"""Looks up namespace annotations in the Kubernetes API, if enabled."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from cachetools import LRUCache

from queuegate_server.admission.kubernetes_api import KubernetesApi, KubernetesApiError
from queuegate_server.runtime.single_flight import Flight, SingleFlight

_NOT_FOUND: Final = 404
SOCKET_SECONDS: Final = 3.0
"""The time limit for connecting to the Kubernetes API, and for each part of its response."""
_LOOKUP_SECONDS: Final = 4.0
"""The time limit for a lookup. Shorter than the API server's timeout for a review."""
_FRESH_SECONDS: Final = 30.0
_STALE_SECONDS: Final = 600.0
_MAX_NAMESPACES: Final = 10_000


class NamespaceError(Exception):
    """The annotations cannot be looked up; the message states the reason."""


class _CachedAnnotations(NamedTuple):
    annotations: Mapping[str, str]
    resolved_at: float


class NamespaceCache:
    """A cache of namespace annotations. Concurrent callers share one lookup per namespace.

    Entries are fresh for 30 s. While lookups fail, entries are used for up to 10 minutes.

    Args:
        fetch: Returns a namespace's annotations. May block. Raises NamespaceError.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, fetch: Callable[[str], Mapping[str, str]], clock: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._entries: LRUCache[str, _CachedAnnotations] = LRUCache(_MAX_NAMESPACES)
        self._lookups = SingleFlight(self._look_up)

    async def annotations(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's annotations, or none if it does not exist. Raises NamespaceError."""
        entry = self._entries.get(namespace)
        if entry is not None and self._clock() - entry.resolved_at < _FRESH_SECONDS:
            return entry.annotations
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                return await self._lookups.join(namespace)
        except (NamespaceError, TimeoutError) as error:
            if entry is not None and self._clock() - entry.resolved_at < _STALE_SECONDS:
                return entry.annotations
            if isinstance(error, TimeoutError):
                raise NamespaceError(
                    f"the API server did not respond within {_LOOKUP_SECONDS:g} s"
                ) from None
            raise

    async def _look_up(self, flight: Flight) -> Mapping[str, str]:
        namespace = flight.key
        annotations = await asyncio.to_thread(self._fetch, namespace)
        self._entries[namespace] = _CachedAnnotations(annotations, self._clock())
        return annotations


def fetch_annotations(api: KubernetesApi, namespace: str) -> Mapping[str, str]:
    """Return a namespace's annotations. Blocks. Thread-safe. Raises NamespaceError."""
    try:
        read = api.request("GET", f"/api/v1/namespaces/{quote(namespace, safe='')}")
        annotations = read["metadata"].get("annotations") or {}
        return {str(key): str(value) for key, value in annotations.items()}
    except KubernetesApiError as error:
        if error.status == _NOT_FOUND:
            return {}
        raise NamespaceError(str(error)) from None
    except (KeyError, AttributeError, TypeError) as error:
        raise NamespaceError(f"the response does not describe a namespace: {error}") from None
