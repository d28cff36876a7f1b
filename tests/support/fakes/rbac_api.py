"""An API server with the RBAC and the queues of a cluster, which can fail, stop and lie."""

import asyncio
import bisect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

API = "rbac.authorization.k8s.io"
VERSIONS = {
    API: "v1",
    "kueue.x-k8s.io": "v1beta2",
    "scheduling.run.ai": "v2",
    "scheduling.volcano.sh": "v1beta1",
}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class RbacApi:
    """The state and behaviour of the API server. Its watches last a hundredth of what is asked."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []
        """Version, resource, type of event and object."""
        self.version = 1
        self.oldest = 0
        """Watches from before this version are gone."""
        self.statuses: dict[str, int] = {}
        """The status with which requests for a resource are refused."""
        self.instead: Answer | None = None
        """Answers instead, unless it returns None."""
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.is_frozen = False
        self.sends_bookmarks = False
        self.url = ""
        self._changed = asyncio.Event()

    def put(self, resource: str, namespace: str, name: str, **content: Any) -> None:
        """Create or change an object."""
        self.version += 1
        known = self.objects.setdefault(resource, {})
        kind = "MODIFIED" if (namespace, name) in known else "ADDED"
        metadata = {"name": name, "resourceVersion": str(self.version)}
        if namespace:
            metadata["namespace"] = namespace
        known[namespace, name] = {"metadata": metadata, **content}
        self._tell(resource, kind, known[namespace, name])

    def delete(self, resource: str, namespace: str, name: str, *, silently: bool = False) -> None:
        """Delete an object. If it is deleted silently, watches do not learn of it."""
        self.version += 1
        gone = self.objects[resource].pop((namespace, name))
        gone["metadata"]["resourceVersion"] = str(self.version)
        if not silently:
            self._tell(resource, "DELETED", gone)

    def role(self, *names: str, name: str = "user", namespace: str = "") -> None:
        """Put a role that grants LocalQueues."""
        rule = {"verbs": ["use"], "apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"]}
        rules = [{**rule, "resourceNames": [*names]} if names else rule]
        self.put("roles" if namespace else "clusterroles", namespace, name, rules=rules)

    def bind(self, name: str, *users: str, namespace: str = "ml", to: str = "user") -> None:
        """Put a binding of a ClusterRole to users."""
        subjects = [{"kind": "User", "apiGroup": API, "name": user} for user in users]
        reference = {"kind": "ClusterRole", "apiGroup": API, "name": to}
        resource = "rolebindings" if namespace else "clusterrolebindings"
        self.put(resource, namespace, name, roleRef=reference, subjects=subjects)

    def forget(self) -> None:
        """Forget what happened before, so that watches are gone (410)."""
        self.version += 1
        self.oldest = self.version
        self.events.clear()
        self._tell("", "", {})

    def wake(self) -> None:
        """Make watches look at the state."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell(self, resource: str, kind: str, content: dict[str, Any]) -> None:
        if resource:
            self.events.append((self.version, resource, kind, json.loads(json.dumps(content))))
        self.wake()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        self.tokens.append(request.headers.get("Authorization", ""))
        while self.is_frozen:  # noqa: ASYNC110 - a test ends it
            await asyncio.sleep(0.01)
        if self.instead is not None and (other := await self.instead(request)) is not None:
            return other
        _, group, *names = request.path.strip("/").split("/")
        if not names:
            return self._group(group)
        version, resource = names
        if resource in self.statuses:
            return web.json_response({"kind": "Status"}, status=self.statuses[resource])
        if VERSIONS.get(group) != version:
            return web.json_response({"kind": "Status"}, status=404)
        if not request.query.get("watch"):
            return self._list(request, resource)
        response = web.StreamResponse()
        with suppress(ConnectionResetError):
            await self._watch(request, response, resource)
        return response

    def _group(self, group: str) -> web.Response:
        if group not in VERSIONS:
            return web.json_response({"kind": "Status"}, status=404)
        version = {"groupVersion": f"{group}/{VERSIONS[group]}", "version": VERSIONS[group]}
        return web.json_response({"preferredVersion": version, "versions": [version]})

    def _list(self, request: web.Request, resource: str) -> web.Response:
        items = [*self.objects.get(resource, {}).values()]
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        metadata = {"resourceVersion": str(self.version)}
        if len(items) > start + limit:
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(
        self, request: web.Request, response: web.StreamResponse, resource: str
    ) -> None:
        await response.prepare(request)
        version = int(request.query["resourceVersion"])
        end = asyncio.get_running_loop().time() + int(request.query["timeoutSeconds"]) / 100
        while True:
            if version < self.oldest:
                await self._send(response, "ERROR", {"kind": "Status", "code": 410})
                break
            changed = self._changed
            start = bisect.bisect_right(self.events, version, key=lambda event: event[0])
            for number, of, kind, content in self.events[start:]:
                if of == resource:
                    await self._send(response, kind, content)
                version = number
            left = end - asyncio.get_running_loop().time()
            if left <= 0 and not self.is_frozen:
                break
            try:
                async with asyncio.timeout(max(left, 0.01)):
                    await changed.wait()
            except TimeoutError:
                continue
        if self.sends_bookmarks:
            metadata = {"resourceVersion": str(self.version)}
            await self._send(response, "BOOKMARK", {"metadata": metadata})
        await response.write_eof()

    async def _send(self, response: web.StreamResponse, kind: str, content: Any) -> None:
        await response.write(json.dumps({"type": kind, "object": content}).encode() + b"\n")


@asynccontextmanager
async def rbac_api(folder: Path) -> AsyncIterator[tuple[RbacApi, Path]]:
    """Run an API server, and provide it with its kubeconfig."""
    api = RbacApi()
    app = web.Application()
    app.router.add_get("/{path:.*}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port, *_ = runner.addresses[0]
    api.url = f"http://{host}:{port}"
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(api.url))
    try:
        yield api, kubeconfig
    finally:
        api.is_frozen = False
        await runner.cleanup()


@contextmanager
def running_rbac_api(
    folder: Path,
) -> Iterator[tuple[RbacApi, Path, Callable[[Callable[[], object]], None]]]:
    """Run an API server in a thread, and provide it, its kubeconfig, and what runs a function in
    that thread.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = rbac_api(folder)

    async def call(work: Callable[[], object]) -> None:
        work()

    async def stop() -> None:
        await running.__aexit__(None, None, None)
        # Watches whose clients are gone end by themselves.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=60)

    def run(work: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(call(work), loop).result(60)

    try:
        api, kubeconfig = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(60)
        yield api, kubeconfig, run
        asyncio.run_coroutine_threadsafe(stop(), loop).result(120)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def kubeconfig_of(server: str, **user: Any) -> str:
    """Return a kubeconfig, in JSON, with one user."""
    return json.dumps(
        {
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
        }
    )
