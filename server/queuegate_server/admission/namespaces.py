"""The annotations of namespaces, asked from the Kubernetes API. Optional."""

import asyncio
import json
import ssl
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote

_NOT_FOUND: Final = 404
_TIMEOUT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 4.0
"""Less than the API server waits for a review."""
_FRESH_SECONDS: Final = 30.0
_USABLE_SECONDS: Final = 600.0
_MOST_NAMESPACES: Final = 10_000
_MOST_BYTES: Final = 2 * 1024 * 1024
# What reading something else than a namespace ends with.
_NO_NAMESPACE: Final = (ValueError, KeyError, AttributeError, TypeError)


class NamespaceUnknown(Exception):
    """The annotations could not be asked for."""


class Namespaces(Protocol):
    """Knows the annotations of namespaces."""

    async def annotations(self, namespace: str) -> Mapping[str, str]:
        """Return them, empty if there is no such namespace. Raises NamespaceUnknown."""


class NoNamespaces:
    """Knows of none: the look-up is off."""

    async def annotations(self, namespace: str) -> Mapping[str, str]:  # noqa: ARG002 - protocol
        """Return nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class _Known:
    annotations: Mapping[str, str]
    at: float


class CachedNamespaces:
    """Asks with `fetch`, in a thread; once for all who ask at the same time.

    An answer is used for 30 s, and for 10 minutes if no new one can be had. Used from
    one event loop.
    """

    def __init__(
        self,
        fetch: Callable[[str], Mapping[str, str]],
        clock: Callable[[], float],
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        """Take a blocking function that raises NamespaceUnknown, a monotonic clock in s, and
        how long a review waits for the function.
        """
        self._fetch = fetch
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Mapping[str, str]]] = {}

    async def annotations(self, namespace: str) -> Mapping[str, str]:
        """Return the annotations. Raises NamespaceUnknown."""
        known = self._known.get(namespace)
        if known is not None and self._clock() - known.at < _FRESH_SECONDS:
            return known.annotations
        task = self._asking.get(namespace)
        if task is None:
            task = asyncio.create_task(self._ask(namespace))
            self._asking[namespace] = task
            task.add_done_callback(lambda done: self._asked(namespace, done))
        try:
            # Shielded: the others still wait when the first one goes away.
            async with asyncio.timeout(self._answer_seconds):
                return await asyncio.shield(task)
        except (NamespaceUnknown, TimeoutError) as error:
            if known is not None and self._clock() - known.at < _USABLE_SECONDS:
                return known.annotations
            if isinstance(error, TimeoutError):
                raise NamespaceUnknown("the API server took too long") from None
            raise

    def _asked(self, namespace: str, task: "asyncio.Task[Mapping[str, str]]") -> None:
        del self._asking[namespace]
        if not task.cancelled():
            # Looked at, also if nobody waits any more.
            task.exception()

    async def _ask(self, namespace: str) -> Mapping[str, str]:
        annotations = await asyncio.to_thread(self._fetch, namespace)
        self._known[namespace] = _Known(annotations, self._clock())
        self._known.move_to_end(namespace)
        if len(self._known) > _MOST_NAMESPACES:
            self._known.popitem(last=False)
        return annotations


class ApiServer:
    """Reads namespaces with the service account of the pod. Blocks; any thread."""

    def __init__(self, url: str, account: Path) -> None:
        """Take the API server's URL, and the folder with `token` and `ca.crt`."""
        self._url = url.rstrip("/")
        self._account = account

    def fetch(self, namespace: str) -> Mapping[str, str]:
        """Return the annotations of a namespace. Raises NamespaceUnknown."""
        try:
            # Both files are renewed while we run.
            token = (self._account / "token").read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=self._account / "ca.crt")
            request = urllib.request.Request(  # noqa: S310 - the URL is the operator's
                f"{self._url}/api/v1/namespaces/{quote(namespace, safe='')}",
                headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            )
            with urllib.request.urlopen(  # noqa: S310 - as above
                request, timeout=_TIMEOUT_SECONDS, context=context
            ) as response:
                read: Any = json.loads(response.read(_MOST_BYTES))
            annotations = read["metadata"].get("annotations") or {}
            return {str(key): str(value) for key, value in annotations.items()}
        except HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return {}
            raise NamespaceUnknown(f"the API server answers {error.code}") from None
        except URLError as error:
            raise NamespaceUnknown(f"the API server cannot be asked: {error.reason}") from None
        except (OSError, HTTPException, *_NO_NAMESPACE) as error:
            raise NamespaceUnknown(f"the API server cannot be asked: {error}") from None
