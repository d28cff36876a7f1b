"""Aborts stalled calls, whose requests do not arrive or whose responses are not read.

`grpc.aio` cannot abort such a call before its deadline or disconnection, because it sends no status
while a response is pending and cannot close a connection. So this module cancels the wait for a
request, and shuts down the sockets of clients that do not read.
"""

import asyncio
import logging
import math
import os
import socket
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio

from queuegate_server.throttling.byte_budget import ByteBudget

Context = grpc.aio.ServicerContext[Any, Any]
Task = asyncio.Task[Any]

MAX_RECEIVING: Final = 1_000
"""The maximum number of calls waiting for their requests. Any additional call aborts the oldest
one."""
TRANSFER_SECONDS: Final = 10.0
"""How long a request may take to arrive, or an answer to be read. The largest, of 4 MiB, needs less
than that at 4 Mbit/s; a caller that is slower holds memory of the server."""
SWEEP_SECONDS: Final = 1.0
_PROMPT_SECONDS: Final = 1.0
"""How long a response may remain unread, in seconds, while the unread budget is exceeded."""
_GRACE_SECONDS: Final = 0.05
"""How long to wait, after a request stream ends, for a disconnect to cancel the call."""
_ACKNOWLEDGED: Final = slice(120, 128)
"""The position of tcpi_bytes_acked in the kernel's tcp_info."""
_LOG: Final = logging.getLogger("queuegate_server.transports")


class Refusal(NamedTuple):
    """The status of calls refused before they reach a handler."""

    message: str
    trailing: tuple[tuple[str, str | bytes], ...]
    counts: MutableMapping[str, int]
    """The number of refused calls, by limit."""


class _Response(NamedTuple):
    peer: str
    size: int
    since: float


@dataclass(slots=True, eq=False)
class Stalls:
    """Tracks calls that wait for their callers to send a request or to read a response."""

    _seconds: float
    """The time limit for a request to arrive, and for a response to be read."""
    _unread: ByteBudget
    """The budget for unwritten response bytes."""
    _refusal: Refusal
    _receiving: dict[Task, float] = field(default_factory=dict)
    """The start times of calls waiting for their requests, oldest first."""
    _sending: dict[Task, _Response] = field(default_factory=dict)
    """The unwritten responses, oldest first."""
    _busy: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while any call may be tracked, so that nothing is swept in an idle server."""
    _given_up: dict[Task, bool] = field(default_factory=dict)
    """The calls being aborted, and whether the reason is that too many calls were waiting."""

    async def receive(self, context: Context) -> Any:
        """Wait for a unary call's request and return it. Aborts the call if it stalls."""
        task, now = _current_task(), asyncio.get_running_loop().time()
        if len(self._receiving) >= MAX_RECEIVING:
            self._give_up(next(iter(self._receiving)), is_surplus=True)
        self._receiving[task] = now
        self._busy.set()
        try:
            request = await context.read()
        except asyncio.CancelledError:
            if task not in self._given_up:
                raise
            task.uncancel()
            await self._refuse(context, is_surplus=self._given_up.pop(task))
        finally:
            self._receiving.pop(task, None)
        if request is grpc.aio.EOF:
            await asyncio.sleep(_GRACE_SECONDS)  # cancelled if the caller has disconnected
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the call ended without a request")
        return request

    def send(self, context: Context, response: bytes) -> bytes:
        """Track the response to a unary call until it is written; return the response."""
        task = _current_task()
        self._track(task, context, response)
        task.add_done_callback(self._written)
        return response

    @contextmanager
    def sending(self, context: Context, response: bytes) -> Iterator[None]:
        """Track a response on a stream while the `with` block writes it."""
        task = _current_task()
        self._track(task, context, response)
        try:
            yield
        finally:
            self._written(task)

    async def sweep(self) -> None:
        """Until cancelled, periodically abort stalled calls."""
        loop = asyncio.get_running_loop()
        while await self._busy.wait():
            await asyncio.sleep(SWEEP_SECONDS)
            if not self._receiving and not self._sending:
                self._busy.clear()
            oldest = loop.time() - self._seconds
            for task in [task for task, since in self._receiving.items() if since < oldest]:
                self._give_up(task, is_surplus=False)
            if peers := self._stalled_peers(loop.time()):
                await disconnect(peers)

    def _track(self, task: Task, context: Context, response: bytes) -> None:
        # Read the peer now, because after the call has ended, gRPC's pointer to it is NULL and
        # `peer` would crash the process.
        peer, size = context.peer(), len(response)
        self._unread.take(size)
        self._sending[task] = _Response(peer, size, asyncio.get_running_loop().time())
        self._busy.set()

    def _written(self, task: Task) -> None:
        self._unread.give_back(self._sending.pop(task).size)

    def _give_up(self, task: Task, *, is_surplus: bool) -> None:
        del self._receiving[task]
        self._given_up[task] = is_surplus
        task.cancel()

    async def _refuse(self, context: Context, *, is_surplus: bool) -> NoReturn:
        message, trailing, counts = self._refusal
        counts["incomplete"] += 1
        if is_surplus:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message, trailing)
        await context.abort(
            grpc.StatusCode.DEADLINE_EXCEEDED,
            f"the request did not arrive within {self._seconds:g} s",
        )

    def _stalled_peers(self, now: float) -> set[str]:
        """Return the peers to disconnect.

        These are peers that did not read a response in time and, while the unread budget is
        exceeded, the slow peers with the most unread bytes.
        """
        stalled: set[str] = set()
        slow: Counter[str] = Counter()
        waiting = {
            task: response
            for task, response in self._sending.items()
            if response.since < now - min(self._seconds, _PROMPT_SECONDS)
        }
        for response in waiting.values():
            if response.since < now - self._seconds:
                stalled.add(response.peer)
            else:
                slow[response.peer] += response.size
        excess = self._unread.excess
        for peer, size in slow.most_common():
            if excess <= 0:
                break
            stalled.add(peer)
            excess -= size
        for task, response in waiting.items():
            if response.peer in stalled:  # disconnect only once
                self._sending[task] = response._replace(since=math.inf)
        return stalled


async def disconnect(peers: Collection[str]) -> None:
    """Disconnect peers that do not read their responses, and log them."""
    _LOG.warning(
        "connections closed: their callers do not read the responses",
        extra={"peers": sorted(peers)[:10], "connections": len(peers)},
    )
    await asyncio.get_running_loop().run_in_executor(None, shut_down, peers)


def shut_down(peers: Iterable[str]) -> None:
    """Shut down the TCP connections of peers such as `ipv4:127.0.0.1:1234`. Thread-safe."""
    wanted = {address for peer in peers if (address := _parse_peer(peer)) is not None}
    for connection, host, port in _connections():
        with suppress(OSError, ValueError):
            if (_unmap(host), port) in wanted:
                connection.shutdown(socket.SHUT_RDWR)


def acknowledged_bytes() -> dict[str, int]:
    """Return how many bytes the peer of each TCP connection has acknowledged, by peer."""
    bytes_by_peer = {}
    for connection, host, port in _connections():
        peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        with suppress(OSError):  # not a TCP connection
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
            bytes_by_peer[peer] = int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)
    return bytes_by_peer


def _connections() -> Iterator[tuple[socket.socket, str, int]]:
    """Yield duplicates of this process's connected IP sockets, with their peers' addresses."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only the numbers matter
        try:
            copy = os.dup(int(name))
        except OSError:
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # not a socket
            os.close(copy)
            continue
        with connection, suppress(OSError):  # closed or listening
            if connection.family in {socket.AF_INET, socket.AF_INET6}:
                host, port, *_ = connection.getpeername()
                yield connection, host, port


def _parse_peer(peer: str) -> tuple[IPv4Address | IPv6Address, int] | None:
    kind, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    try:
        return (_unmap(host.strip("[]")), int(port)) if kind in {"ipv4", "ipv6"} else None
    except ValueError:
        return None


def _unmap(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _current_task() -> Task:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - gRPC runs each call as a task
    return task
