"""A hostile API server, and a tenant with many bindings, take the service from nobody."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import MAX_MEMORY
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.resilience.isolation.webhook_floods import observed_webhook
from tests.support.admission_reviews import admission_review
from tests.support.eventually import eventually
from tests.support.fakes.rbac_api import RbacApi, running_rbac_api
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.webhook import running_webhook

QUEUE = "root.localqueues.ml"
SECONDS = 6.0
BINDINGS = 100_000
CHANGES = 2_000
SHORT_WATCHES = with_constants.environment(
    {"policystore.kubernetes.resource_watch.WATCH_SECONDS": [15, 16]}
)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HEAD = b'{"metadata": {"resourceVersion": "1"}, "items": ['
ITEM = b'{"metadata": {"name": "a", "namespace": "b"}, "roleRef": {"kind": "Role", "name": "c"}}'


def _sized(body: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(body) + body


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "one-byte chunks": (CHUNKED, b"1\r\nx\r\n"),
    "headers": (OK, b"A: b\r\n"),
    "a body": (OK + b"\r\n", b"x"),
    "lines": (OK + b"\r\n", b"\n"),
    "events": (OK + b"\r\n", b'{"type": "ADDED", "object": ' + ITEM + b"}\n"),
    "bookmarks": (
        OK + b"\r\n",
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}\n',
    ),
}
SUBJECTS = b",".join(b'{"kind": "User", "name": "u%d"}' % number for number in range(40_000))
# Each is malformed, if only at its end: a list of bindings that is not would be the policy.
BODIES: dict[str, bytes] = {
    "lists": HEAD + b"[]," * 600_000 + b"[]]}",
    "a deep list": HEAD + b"[" * 2_000_000,
    "numbers": HEAD + b"1," * 900_000 + b"1]}",
    "objects": HEAD + (ITEM + b",") * 20_000 + ITEM + b"]",
    "many subjects": HEAD + ITEM[:-1] + b', "subjects": [' + SUBJECTS + b"]}]",
    "escapes": HEAD + ITEM[:-1] + b', "x": "' + rb"\u0041" * 300_000 + b'"}]',
    "digits": HEAD + b"9" * 1_900_000 + b"]}",
}


def raw(blocks: Iterable[bytes]) -> Any:
    async def answer(request: web.Request) -> web.StreamResponse | None:
        transport = request.transport
        assert transport is not None
        for block in blocks:
            if transport.is_closing():
                break
            transport.write(block)
            # The buffer of a client that does not read stays full.
            is_full = transport.get_write_buffer_size() > 1 << 20
            await asyncio.sleep(0.1 if is_full else 0)
        transport.abort()
        return web.Response()

    return answer


class Endless:
    """Bytes without an end, after others."""

    def __init__(self, before: bytes, text: bytes) -> None:
        self._before = before
        self._block = text * (64 * 1024 // len(text) + 1)

    def __iter__(self) -> Iterator[bytes]:
        return itertools.chain([self._before], itertools.repeat(self._block))


ANSWERS: dict[str, Any] = {
    **{f"endless {name}": raw(Endless(*parts)) for name, parts in ENDLESS.items()},
    **{name: raw([_sized(body)]) for name, body in BODIES.items()},
}

Beside = tuple[RbacApi, Callable[[Callable[[], object]], None], Observation]


@pytest.fixture(scope="module")
def beside_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """Observe a server that follows a cluster in which alice may use queues."""
    folder = tmp_path_factory.mktemp("server")
    with running_rbac_api(folder) as (api, kubeconfig, run):
        run(api.role)
        run(partial(api.bind, "team", "alice"))
        config = folder / "queuegate.yaml"
        config.write_text(f"policy: {{kubernetes: {{kubeconfig: {kubeconfig}}}}}")
        with (
            running_server("--config", str(config), environment=SHORT_WATCHES) as server,
            observed(server, queues=[QUEUE], max_memory=MAX_MEMORY) as found,
        ):
            yield api, run, found


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_hostile_api_server(beside_cluster: Beside, record: Record, answer: Any) -> None:
    api, run, found = beside_cluster

    def flood() -> None:
        asked = len(api.requests)
        api.instead = answer
        run(api.forget)
        # After answers that it cannot use, the server asks at growing intervals.
        eventually(lambda: len(api.requests) > asked, expected=True)
        time.sleep(SECONDS)
        api.instead = None

    expect_isolation(found, record, flood, MAX_MEMORY)


def test_a_namespace_with_100_000_bindings(beside_cluster: Beside, record: Record) -> None:
    """They grant too much, so they grant nothing, and each of their changes is short."""
    api, run, found = beside_cluster

    def flood() -> None:
        for start in range(0, BINDINGS, 1_000):
            run(partial(_bind, api, range(start, start + 1_000)))
        for number in range(CHANGES):
            run(partial(_bind, api, [number]))
            time.sleep(0.001)

    expect_isolation(found, record, flood, MAX_MEMORY)


def test_refused_reviews_while_bindings_change(tmp_path: Path, record: Record) -> None:
    """Each change replaces the policy, and each refusal has manifests."""
    with running_rbac_api(tmp_path) as (api, kubeconfig, run):
        run(api.role)
        config = tmp_path / "queuegate.yaml"
        policy = {"kubernetes": {"kubeconfig": str(kubeconfig)}}
        queues = {"mode": "deny", "schedulers": {"kueue": {}}}
        config.write_text(json.dumps({"policy": policy, "admission": {"queues": queues}}))
        with (
            running_webhook(tmp_path, "--config", str(config)) as webhook,
            observed_webhook(webhook) as found,
        ):
            numbers = itertools.count()

            def act() -> None:
                end = time.monotonic() + SECONDS
                while time.monotonic() < end:
                    number = next(numbers)
                    run(partial(_bind, api, [number % 1_000]))
                    metadata = {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "q" * 63}}
                    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
                    asked = admission_review(f"{number}-{'u' * 200}", job)
                    response = webhook.review("/queues", asked)
                    assert not response["allowed"]
                    assert "kind: RoleBinding" in response["status"]["message"]

            def flood() -> None:
                with ThreadPoolExecutor(4) as threads:
                    for each in [threads.submit(act) for _ in range(4)]:
                        each.result()

            expect_isolation(found, record, flood)


def _bind(api: RbacApi, numbers: Iterable[int]) -> None:
    for number in numbers:
        users = f"user-{number}", f"user-{time.monotonic_ns()}"
        api.bind(f"b{number}", *users, namespace="tenant")


def test_the_bodies_are_what_they_are_called() -> None:
    objects, subjects = (json.loads(BODIES[name] + b"}") for name in ("objects", "many subjects"))
    assert objects["items"][0]["roleRef"]["name"] == "c"
    assert len(subjects["items"][0]["subjects"]) == 40_000
