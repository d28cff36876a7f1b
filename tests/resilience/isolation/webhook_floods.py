"""Floods of the admission webhook, each in a process of its own.

As a program it takes the address, a PEM file with the authority and the name of a flood, prints a
line once the flood is under way, and runs until it is killed.
"""

import asyncio
import base64
import contextlib
import gzip
import json
import random
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from queuegate_server.admin.connections import MAX_HEAD_BYTES
from queuegate_server.admission.server.webhook_limits import (
    MAX_REVISION_BYTES,
    MAX_REVISION_ENTRIES,
    SMALL_BODY_BYTES,
)
from tests.resilience.isolation.promise import Observation, observed
from tests.resilience.isolation.web_floods import flood_process, run_flood
from tests.support.servers.webhook import Webhook

MAX_BODY = 3 * 1024 * 1024
HEAD = (
    b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
UNDER_WAY = 20
"""How many exchanges, or attempts, of a flood have ended when the neighbour begins."""


def long_head(length: int, size: int = MAX_HEAD_BYTES) -> bytes:
    """A head of about a size of a request with a body of a length, in bytes. By default, it is the
    longest that the webhook accepts.
    """
    head = HEAD % (b"/mutate", length)
    count = 48
    each = (size - len(head)) // count
    padding = b"".join(b"X-%02d: %s\r\n" % (number, b"x" * (each - 8)) for number in range(count))
    return head[:-2] + padding + b"\r\n"


def review(value: bytes, kind: str = "Pod") -> bytes:
    """The body of a review of an object."""
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
        b'"kind":{"kind":"%s"},"operation":"CREATE","namespace":"dev",'
        b'"userInfo":{"username":"bob","groups":["dev"]},"object":%s}}' % (kind.encode(), value)
    )


def filled(before: bytes, unit: bytes, after: bytes, size: int = MAX_BODY) -> bytes:
    """A review of the largest size, with one thing again and again in its object."""
    count = (size - len(review(before + after))) // len(unit)
    return review(before + unit * count + after)


def many(opening: bytes, closing: bytes) -> bytes:
    """A review of the largest size with as many different names as fit."""
    names = b",".join(b'"%x":""' % number for number in range(MAX_BODY // 11))
    return review(opening + names + closing)


def legal(size: int = MAX_BODY) -> bytes:
    """A pod as an API server sends it, by default of the largest size."""
    container: dict[str, Any] = {
        "name": "c",
        "image": "registry.example/image:1",
        "args": ["--flag"] * 50,
    }
    container["env"] = [{"name": f"NAME_{n}", "value": "some value"} for n in range(50)]
    text = json.dumps(container, separators=(",", ":")).encode() + b","
    annotation = b'{"metadata":{"annotations":{"a":"%s"}},' % (b"x" * 250_000)
    return filled(annotation + b'"spec":{"containers":[', text, b"{}]}}", size)


BODIES: dict[str, Callable[[], bytes]] = {
    "large legal reviews": legal,
    "many empty lists": lambda: filled(b'{"spec":[', b"[],", b"1]}"),
    "many annotations": lambda: many(b'{"metadata":{"annotations":{', b"}}}"),
    # They are read as a whole, up to their bound.
    "dense revisions": lambda: review(
        b'{"data":[' + b"[]," * (MAX_REVISION_ENTRIES // 2 - 10) + b"1]}", "ControllerRevision"
    ),
    "revisions that are too dense": lambda: review(
        b'{"data":[' + b"[]," * (MAX_REVISION_BYTES // 3 - 100) + b"1]}", "ControllerRevision"
    ),
    "half a surrogate pair": lambda: filled(b'{"spec":"\\ud800', b"[],", b'"}'),
    "too large": lambda: filled(b'{"spec":"', b"y", b'"}', 8 * 1024 * 1024),
}

HEADS = {
    "long headers and slow small bodies": MAX_HEAD_BYTES,
    "headers that become too long": 5 * MAX_HEAD_BYTES,
}
"""The bytes in the heads of requests whose bodies do not end."""

QUEUE = "example.com/queue"
"""The label that names a queue where the webhook checks queues."""
TEMPLATE = '{"metadata":{"labels":{"%s":"root.q%d"}}}'
MAX_NAMED = 64
"""How many different queues an object may name."""


def naming(count: int, different: int) -> bytes:
    """A review of an object that names queues in templates."""
    templates = [TEMPLATE % (QUEUE, number % different) for number in range(count)]
    return review(b'{"spec":[%s]}' % ",".join(templates).encode())


def updated(value: bytes) -> bytes:
    """A review with an object as the new one and the old one."""
    return review(value + b',"oldObject":' + value)


def managed(keys: int) -> bytes:
    """An object with a managed field for each of its keys."""
    own = b",".join(b'"k%d":1' % number for number in range(keys))
    fields = b",".join(b'"f:k%d":{}' % number for number in range(keys))
    return b'{"metadata":{"managedFields":[{%s}]},"spec":{%s}}' % (fields, own)


def configured(*texts: str) -> bytes:
    """A review of objects of Flink that set labels as text."""
    items = [{"flinkConfiguration": {"kubernetes.jobmanager.labels": text}} for text in texts]
    return review(json.dumps({"spec": items}).encode())


def config_map(text: str) -> bytes:
    """A review of the scheduler's ConfigMap with a compressed policy."""
    packed = base64.b64encode(gzip.compress(text.encode()))
    name = b'"metadata":{"name":"yunikorn-configs"}'
    return review(b'{%s,"binaryData":{"queues.yaml.gz":"%s"}}' % (name, packed), "ConfigMap")


MOST_CONFIGURED = 4 * 1024 * 1024
CONFIG_BODIES: dict[str, Callable[[], bytes]] = {
    "ConfigMaps of many lists": lambda: config_map("[" + "[]," * (MOST_CONFIGURED // 3 - 1) + "]"),
    "ConfigMaps of many queues": lambda: config_map(
        "partitions: [{name: default, queues: [" + "{}," * ((MOST_CONFIGURED - 100) // 3) + "]}]"
    ),
    "ConfigMaps of many blocks": lambda: config_map("- -\n" * (MOST_CONFIGURED // 4)),
}
"""Bodies of a few kilobytes for /validate-conf."""


QUEUE_BODIES: dict[str, Callable[[], bytes]] = {
    # Bodies that are small, so that they need no slot.
    "small bodies of many lists": lambda: filled(b'{"spec":[', b"[],", b"1]}", 32_000),
    "small bodies of many maps": lambda: filled(b'{"spec":[', b'{"":1},', b"1]}", 32_000),
    "small bodies of labels in text": lambda: configured("? a\n" * 6_400),
    "small bodies of many labels in texts": lambda: configured(*["? a\n" * 500] * 12),
    "small bodies of labels in YAML": lambda: configured(*["k: v\n" * 79] * 12),
    # Objects near the limits, which are searched completely.
    "large legal objects": lambda: legal(MAX_BODY * 2 // 5),
    "objects of many lists": lambda: filled(b'{"spec":[', b"[],", b"1]}", 3 * 95_000),
    "updates of objects with managed fields": lambda: updated(managed(60_000)),
    "objects of long texts": lambda: filled(b'{"spec":"', b",[{:", b'"}'),
    "many names of a few queues": lambda: naming(20_000, MAX_NAMED),
    # Objects beyond the limits.
    "many names of many queues": lambda: naming(20_000, 20_000),
    "too many lists": lambda: filled(b'{"spec":[', b"[],", b"1]}"),
    "updates of too many lists": lambda: updated(b'{"spec":[%s1]}' % (b"[]," * 500_000)),
    "too many brackets": lambda: filled(b'{"spec":', b"[", b""),
    "too many levels": lambda: filled(b'{"spec":', b'{"a":', b"", 500_000),
    "texts without an end": lambda: filled(b'{"spec":"' + b"," * 200_000, b'\\"', b"}"),
}
"""Bodies of requests to /queues."""


class Flood:
    """The work of a flood's connections, and how much they have done."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context: ssl.SSLContext | None = context
        self.turns = 0
        self.under_way = UNDER_WAY
        self.started = asyncio.Event()

    async def run(self, name: str) -> None:
        if name in BODIES:
            body = BODIES[name]()
            await self._at_once(40, lambda *ends: self._exchange(body, *ends))
        elif name in CONFIG_BODIES:
            body = CONFIG_BODIES[name]()
            # Few of these end while the machine is busy: all but one wait until their time limit.
            self.under_way = 1
            path = b"/validate-conf?timeout=5s"
            await self._at_once(40, lambda *ends: self._exchange(body, *ends, path=path))
        elif name in QUEUE_BODIES:
            body = QUEUE_BODIES[name]()
            await self._at_once(40, lambda *ends: self._exchange(body, *ends, path=b"/queues"))
        elif name == "strangers":
            await self._at_once(200, self._ask_as_strangers)
        elif name == "slow large bodies":
            await self._at_once(200, lambda *ends: self._trickle(MAX_BODY, *ends))
        elif name in HEADS:
            self.under_way = 300
            await self._at_once(1_200, lambda *ends: self._hold(HEADS[name], *ends))
        elif name == "slow small bodies":
            await self._at_once(500, lambda *ends: self._trickle(60_000, *ends))
        elif name in {"idle connections", "silent connections"}:
            self._context = self._context if name == "idle connections" else None
            self.under_way = 1_100
            await self._at_once(1_200, self._wait)
        elif name == "answers nobody reads":
            body = legal()
            await self._at_once(100, lambda *ends: self._send_only(body, *ends))
        else:
            raise ValueError(name)

    async def _at_once(
        self,
        count: int,
        act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        few = asyncio.Semaphore(20)

        async def forever() -> None:
            while True:
                with contextlib.suppress(OSError, EOFError):
                    async with few:
                        ends = await asyncio.open_connection(
                            self._host,
                            self._port,
                            ssl=self._context,
                            server_hostname="localhost" if self._context else None,
                        )
                    try:
                        await act(*ends)
                    finally:
                        ends[1].transport.abort()
                self._ended()

        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(forever())

    def _ended(self) -> None:
        self.turns += 1
        if self.turns >= self.under_way:
            self.started.set()

    async def _ask_as_strangers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Ask in the name of a user who was never seen."""
        body = naming(1, 1).replace(b'"bob"', b'"stranger-%d"' % random.getrandbits(64))
        await self._exchange(body, reader, writer, path=b"/queues", times=1)

    async def _exchange(
        self,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        path: bytes = b"/mutate",
        times: int = 1_000_000,
    ) -> None:
        request = HEAD % (path, len(body)) + body
        for _ in range(times):
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(None, 1)[0])
            await reader.readexactly(length)
            self._ended()
            if not head.startswith(b"http/1.1 200"):
                return

    async def _trickle(
        self, size: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(HEAD % (b"/mutate", size) + b" " * (size // 2))
        self._ended()
        while not reader.at_eof():
            writer.write(b" ")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await reader.read(1_000)
                    return

    async def _hold(
        self, size: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send headers of a size, almost all that may arrive first, and a small body without its
        end.
        """
        sent = long_head(SMALL_BODY_BYTES, size) + b" " * (SMALL_BODY_BYTES - 1)
        writer.write(sent[: MAX_HEAD_BYTES - 1])
        await asyncio.sleep(0.1)
        writer.write(sent[MAX_HEAD_BYTES - 1 :])
        await writer.drain()
        self._ended()
        await reader.read()

    async def _wait(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        self._ended()
        await reader.read()

    async def _send_only(
        self, body: bytes, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = HEAD % (b"/mutate", len(body)) + body
        while not writer.transport.is_closing():
            writer.write(request)
            await writer.drain()
            # It learns of the end of the connection only while it waits.
            await asyncio.sleep(0.01)
            self._ended()


FLOODS = (
    *BODIES,
    *CONFIG_BODIES,
    "slow large bodies",
    "slow small bodies",
    *HEADS,
    "idle connections",
    "silent connections",
    "answers nobody reads",
)
QUEUE_FLOODS = (*QUEUE_BODIES, "strangers")


@contextlib.contextmanager
def observed_webhook(webhook: Webhook) -> Iterator[Observation]:
    """Observe a neighbour who asks a webhook."""
    with observed(webhook.server, webhook.address, authority_of(webhook)) as observation:
        yield observation


@contextlib.contextmanager
def flooded(webhook: Webhook, name: str) -> Iterator[None]:
    """Flood a webhook while the block runs."""
    with flood_process(__name__, webhook.address, str(authority_of(webhook)), name):
        yield


def authority_of(webhook: Webhook) -> Path:
    """Return a PEM file with the authority of a webhook's certificate."""
    path = webhook.files / "authority.pem"
    webhook.ca.cert_pem.write_to_path(str(path))
    return path


async def main(address: str, authority: str, name: str) -> None:
    flood = Flood(address, ssl.create_default_context(cafile=authority))
    await run_flood(flood.run(name), flood.started)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
