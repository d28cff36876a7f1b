"""Follows one resource's objects: lists them, then watches for changes from where the list ended.

A watch lasts less than half a minute, and its end is a sign of life: all changes up to its start
have arrived. Bookmarks are not signs of life, because most idle watches get none for minutes. After
any other end of a watch, the objects are listed again, so that no deletion is missed.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Raw

from queuegate.policy.named_grants import KINDS, Kind
from queuegate_server.policystore.kubernetes import decoding
from queuegate_server.policystore.kubernetes.api_client import (
    JSON,
    MAX_OBJECT_BYTES,
    ApiClient,
    ApiFault,
    NotServed,
    TooLong,
    VersionGone,
)
from queuegate_server.policystore.kubernetes.decoding import Decoded, Entry, EntryKey, ListPage
from queuegate_server.runtime import pauses
from queuegate_server.runtime.pacing import Pace

_LOG = logging.getLogger("queuegate_server.policystore.kubernetes")
WATCH_SECONDS: Final = (15, 30)
"""The minimum and maximum duration of a watch, chosen at random so that not all watches end at
once.
"""
MIN_WATCH_SECONDS: Final = 1.0
"""The minimum time between the starts of two watches."""
END_SECONDS: Final = 10
"""How much later than requested a watch may end."""
PAGE_OBJECTS: Final = 250
MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
MAX_PAGE_VALUES: Final = 100_000
"""If a page has more values, a smaller page is requested."""
LIST_SECONDS: Final = 300.0
MAX_NAMES: Final = 250_000
"""The maximum number of objects of a resource, and of names in them."""
_METADATA_TYPES: Final = {
    "list": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "watch": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}
_WHOLE_TYPES: Final = {"list": JSON, "watch": JSON}
_RBAC: Final = "rbac.authorization.k8s.io"


class Resource(NamedTuple):
    """A kind of object in the API."""

    group: str
    name: str
    is_namespaced: bool
    queue: Kind | None = None
    """The kind of queue; None for RBAC."""


RBAC_RESOURCES: Final = (
    Resource(_RBAC, "clusterroles", is_namespaced=False),
    Resource(_RBAC, "roles", is_namespaced=True),
    Resource(_RBAC, "clusterrolebindings", is_namespaced=False),
    Resource(_RBAC, "rolebindings", is_namespaced=True),
)
QUEUE_RESOURCES: Final = tuple(
    Resource(kind.group, kind.resource, kind.is_namespaced, kind) for kind in KINDS
)


@dataclass(eq=False)
class ResourceWatch:
    """The objects of one resource."""

    resource: Resource
    client: ApiClient
    clock: Callable[[], float]
    """Monotonic seconds."""
    on_change: Callable[["ResourceWatch", EntryKey, Entry | None], None]
    """Called with each object that is new or has changed; None if it no longer exists."""
    on_sign_of_life: Callable[[], None]
    """Called when `alive_at` has changed."""
    alive_at: float = float("-inf")
    """The objects are current as of this time or a later time, except for changes that have not
    been reported yet.
    """
    was_asked: bool = False
    """Whether the objects have been read once, or reading them has failed."""
    fault: str = ""
    """Why the objects cannot be followed now; empty if they can."""
    names: int = 0
    """The number of objects, and of names in them."""
    oversized: set[EntryKey] = field(default_factory=set)
    """The objects that have too many values, so that they grant nothing."""
    objects: dict[EntryKey, Decoded] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        failures = 0
        while True:
            try:
                path = await self._path()
                version = await self._list(path)
                self.fault = ""
                while True:
                    version = await self._watch(path, version)
                    failures = 0
            except Exception as error:  # a bug must not stop the others
                failures += 1
                await self._note_failure(error)
                await asyncio.sleep(pauses.API_SERVER.after(failures))

    async def _path(self) -> str:
        """Return the path of the resource. Raises ApiFault."""
        group, name = self.resource.group, self.resource.name
        if self.resource.queue is None:
            return f"/apis/{group}/v1/{name}"
        data = await self.client.get(f"/apis/{group}", {}, MAX_PAGE_BYTES)
        for version in decoding.versions(data):
            path = f"/apis/{group}/{version}/{name}"
            try:
                await self.client.get(path, {"limit": "1"}, MAX_OBJECT_BYTES, self._types["list"])
            except NotServed:
                continue
            return path
        raise NotServed(f"no version of {group} has {name}")

    @property
    def _types(self) -> Mapping[str, str]:
        return _WHOLE_TYPES if self.resource.queue is None else _METADATA_TYPES

    async def _list(self, path: str) -> str:
        """List all objects, and return their version. Raises ApiFault."""
        start = self.clock()
        found: dict[EntryKey, Decoded] = {}
        names = 0
        limit, token = PAGE_OBJECTS, ""
        pace = Pace()
        try:
            async with asyncio.timeout(LIST_SECONDS):
                while True:
                    page, limit = await self._page(path, limit, token)
                    for item in page.items or ():
                        decoded = self._decode(item)
                        found[decoded.key] = decoded
                        names += decoded.size
                        _check_names(names)
                        await pace.pause_if_due()
                    token = page.metadata.continue_
                    if not token:
                        break
        except TimeoutError:
            raise ApiFault(f"the list did not end within {LIST_SECONDS:g} s") from None
        await self._replace(found, pace)
        self._note_life(start)
        return page.metadata.resource_version

    async def _page(self, path: str, limit: int, token: str) -> tuple[ListPage, int]:
        """Return a page, and the number of objects to request next. Raises ApiFault."""
        while True:
            query = {"limit": str(limit), **({"continue": token} if token else {})}
            most = MAX_OBJECT_BYTES if limit == 1 else MAX_PAGE_BYTES
            try:
                data = await self.client.get(path, query, most, self._types["list"])
            except TooLong:
                if limit == 1:
                    raise
            else:
                if limit == 1 or data.count(b",") <= MAX_PAGE_VALUES:
                    return decoding.page(data, limit), min(PAGE_OBJECTS, 2 * limit)
            limit = max(1, limit // 4)

    async def _replace(self, found: Mapping[EntryKey, Decoded], pace: Pace) -> None:
        for key in [*found, *(self.objects.keys() - found.keys())]:
            self._put(key, found.get(key))
            await pace.pause_if_due()

    async def _watch(self, path: str, version: str) -> str:
        """Follow changes until the API server ends the watch; return the version then reached.

        Raises ApiFault.
        """
        start = self.clock()
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - no secret
        query = {
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        pace = Pace()
        most = seconds + END_SECONDS
        async with self.client.watch(path, query, most, self._types["watch"]) as lines:
            async for line in lines:
                event = decoding.event(line)
                version = decoding.version_of(event.object) or version
                if event.type != "BOOKMARK":
                    self._apply(event)
                await pace.pause_if_due()
        self._note_life(start)
        await asyncio.sleep(start + MIN_WATCH_SECONDS - self.clock())
        return version

    def _apply(self, event: decoding.WatchEvent) -> None:
        """Apply one change. Raises ApiFault."""
        decoded = self._decode(event.object)
        if event.type == "DELETED":
            self._put(decoded.key, None)
        else:
            _check_names(self.names + decoded.size)
            self._put(decoded.key, decoded)

    def _put(self, key: EntryKey, now: Decoded | None) -> None:
        """Replace or remove an object, and report it if it has changed."""
        old = self.objects.pop(key, None)
        self.names += (now.size if now else 0) - (old.size if old else 0)
        if now is not None:
            self.objects[key] = now
        if now is not None and now.is_oversized:
            if key not in self.oversized:
                message = "an object is too large to be read, and grants nothing"
                _LOG.warning(message, extra={"kind": self.resource.name, "object": "/".join(key)})
            self.oversized.add(key)
        else:
            self.oversized.discard(key)
        entry = None if now is None else now.entry
        if entry != (None if old is None else old.entry):
            self.on_change(self, key, entry)

    def _decode(self, item: Raw) -> Decoded:
        _, name, is_namespaced, queue = self.resource
        return decoding.decode(item, name, queue, is_namespaced=is_namespaced)

    def _note_life(self, at: float) -> None:
        self.alive_at, self.was_asked = at, True
        self.on_sign_of_life()

    async def _note_failure(self, error: Exception) -> None:
        """Record why the objects cannot be followed.

        If the API server does not serve a kind of queue, the cluster has no such queues.
        """
        if isinstance(error, NotServed) and self.resource.queue is not None:
            await self._replace({}, Pace())
            self._note_life(self.clock())
            return
        self.was_asked = True
        self.on_sign_of_life()
        if isinstance(error, VersionGone):
            return
        fault = str(error) if isinstance(error, ApiFault) else f"unexpected {type(error).__name__}"
        if fault != self.fault:
            kind = f"{self.resource.name}.{self.resource.group}"
            trace = None if isinstance(error, ApiFault) else error
            message = "RBAC or queues cannot be followed"
            _LOG.warning(message, exc_info=trace, extra={"kind": kind, "error": fault})
        self.fault = fault


def _check_names(names: int) -> None:
    if names > MAX_NAMES:
        raise ApiFault(f"there are more than {MAX_NAMES} objects and names in them")
