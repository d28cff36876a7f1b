"""Looks up namespace annotations in the Kubernetes API, if enabled."""

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from cachetools import LRUCache

from queuegate_server.runtime.single_flight import Flight, SingleFlight

_NOT_FOUND: Final = 404
_SOCKET_SECONDS: Final = 3.0
_LOOKUP_SECONDS: Final = 4.0
"""The time limit for a lookup. Shorter than the API server's timeout for a review."""
_FRESH_SECONDS: Final = 30.0
_STALE_SECONDS: Final = 600.0
_MAX_NAMESPACES: Final = 10_000
_MAX_BYTES: Final = 2 * 1024 * 1024


class NamespaceError(Exception):
    """The annotations cannot be looked up; the message states the reason."""


class _CachedAnnotations(NamedTuple):
    annotations: Mapping[str, str]
    resolved_at: float


class NamespaceCache:
    """A cache of namespace annotations. Concurrent callers share one lookup per namespace.

    Entries are fresh for 30 s. While lookups fail, they are used for up to 10 minutes.

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


def fetch_annotations(url: str, account: Path, namespace: str) -> Mapping[str, str]:
    """Return a namespace's annotations. Blocks. Thread-safe. Raises NamespaceError.

    `url` is the URL of the Kubernetes API. `account` is the folder that contains the `token` and
    `ca.crt` of the pod's service account.
    """
    try:
        # Read both files each time, because Kubernetes rotates them.
        token = (account / "token").read_text(encoding="ascii").strip()
        context = ssl.create_default_context(cafile=account / "ca.crt")
        request = urllib.request.Request(  # noqa: S310 - the URL is the operator's
            f"{url.rstrip('/')}/api/v1/namespaces/{quote(namespace, safe='')}",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
        )
        with urllib.request.urlopen(  # noqa: S310 - as above
            request, timeout=_SOCKET_SECONDS, context=context
        ) as response:
            read: Any = json.loads(response.read(_MAX_BYTES))
        annotations = read["metadata"].get("annotations") or {}
        return {str(key): str(value) for key, value in annotations.items()}
    except HTTPError as error:
        error.close()
        if error.code == _NOT_FOUND:
            return {}
        raise NamespaceError(f"the API server responded with status {error.code}") from None
    except URLError as error:
        raise NamespaceError(f"the API server cannot be reached: {error.reason}") from None
    except (OSError, HTTPException, ValueError, KeyError, AttributeError, TypeError) as error:
        # The last four exceptions mean that the response does not describe a namespace.
        raise NamespaceError(f"the API server cannot be reached: {error}") from None
