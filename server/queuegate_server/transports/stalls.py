"""Ends stalled calls: their requests do not arrive, or their answers are not read.

`grpc.aio` cannot end such a call before its deadline or the end of its connection: it sends no
status while an answer waits, and cannot close a connection. So requests that do not arrive are
abandoned here, and connections whose clients do not read are shut down at the socket.
"""

import asyncio
import logging
import math
import os
import socket
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio

from queuegate_server.throttling import ByteBudget

Context = grpc.aio.ServicerContext[Any, Any]
Task = asyncio.Task[Any]

MAX_RECEIVING: Final = 1_000
"""The maximum number of calls that wait for their requests, which should take milliseconds. Another
one ends the oldest."""
SWEEP_SECONDS: Final = 1.0
_PROMPT_SECONDS: Final = 1.0
"""The time after which an unread answer ends its connection while too much is unread."""
_GRACE_SECONDS: Final = 0.05
"""The end of a request and the end of its call may arrive in either order."""
_ACKNOWLEDGED: Final = slice(120, 128)
"""The position of tcpi_bytes_acked in the kernel's tcp_info."""
_LOG: Final = logging.getLogger("queuegate_server.transports")


class Refusal(NamedTuple):
    """The refusal of calls before a handler sees them."""

    message: str
    trailing: tuple[tuple[str, str | bytes], ...]
    """The trailing metadata."""
    counts: MutableMapping[str, int]
    """Counts refused calls by the bound that was reached."""


class _Answer(NamedTuple):
    peer: str
    size: int
    since: float


@dataclass(slots=True, eq=False)
class Stalls:
    """The calls of a `grpc.aio` server that wait for their callers."""

    _seconds: float
    """The time in which a request must arrive, and an answer must be read."""
    _unread: ByteBudget
    """Counts the bytes of unwritten answers."""
    _refusal: Refusal
    _receiving: dict[Task, float] = field(default_factory=dict)
    """The calls that wait for their requests, with their start times, oldest first."""
    _sending: dict[Task, _Answer] = field(default_factory=dict)
    """The answers not yet written, oldest first."""
    _given_up: dict[Task, bool] = field(default_factory=dict)
    """Calls being ended, and whether because there were too many."""

    async def receive(self, context: Context) -> Any:
        """Return the request of a unary call, or end the call."""
        task, now = _current_task(), asyncio.get_running_loop().time()
        if len(self._receiving) >= MAX_RECEIVING:
            self._give_up(next(iter(self._receiving)), is_surplus=True)
        self._receiving[task] = now
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
            await asyncio.sleep(_GRACE_SECONDS)  # if the caller is gone, the call is cancelled now
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the call ended without a request")
        return request

    def send(self, context: Context, answer: bytes) -> bytes:
        """Watch the answer of a unary call until it is written, and return the answer."""
        task = _current_task()
        self._begin(task, context, answer)
        task.add_done_callback(self._written)
        return answer

    @contextmanager
    def sending(self, context: Context, answer: bytes) -> Iterator[None]:
        """Watch an answer of a stream. The block ends when it is written."""
        task = _current_task()
        self._begin(task, context, answer)
        try:
            yield
        finally:
            self._written(task)

    async def sweep(self) -> None:
        """End stalled calls, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            oldest = loop.time() - self._seconds
            for task in [task for task, since in self._receiving.items() if since < oldest]:
                self._give_up(task, is_surplus=False)
            if peers := self._stalled_peers(loop.time()):
                await cut(peers)

    def _begin(self, task: Task, context: Context, answer: bytes) -> None:
        # Not later: once the call has ended, its pointer is NULL, and `peer` crashes the process.
        peer, size = context.peer(), len(answer)
        self._unread.take(size)
        self._sending[task] = _Answer(peer, size, asyncio.get_running_loop().time())

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
        """Return the peers to disconnect: peers that did not read an answer in time and, while too
        much is unread, slow ones with the most unread bytes.
        """
        stalled: set[str] = set()
        slow: Counter[str] = Counter()
        waiting = {
            task: answer
            for task, answer in self._sending.items()
            if answer.since < now - min(self._seconds, _PROMPT_SECONDS)
        }
        for answer in waiting.values():
            if answer.since < now - self._seconds:
                stalled.add(answer.peer)
            else:
                slow[answer.peer] += answer.size
        excess = self._unread.excess
        for peer, size in slow.most_common():
            if excess <= 0:
                break
            stalled.add(peer)
            excess -= size
        for task, answer in waiting.items():
            if answer.peer in stalled:  # once is enough
                self._sending[task] = answer._replace(since=math.inf)
        return stalled


async def cut(peers: Collection[str]) -> None:
    """Disconnect peers that do not read their answers, and log it."""
    _LOG.warning(
        "connections closed: their callers do not read the responses",
        extra={"peers": sorted(peers)[:10], "connections": len(peers)},
    )
    await asyncio.get_running_loop().run_in_executor(None, shut_down, peers)


def shut_down(peers: Iterable[str]) -> None:
    """End the TCP connections of peers, such as `ipv4:127.0.0.1:1234`. Thread-safe."""
    wanted = {address for peer in peers if (address := _parsed(peer)) is not None}
    for connection in _connections():
        with connection:
            try:
                host, port, *_ = connection.getpeername()
                if (_unmapped(host), port) in wanted:
                    connection.shutdown(socket.SHUT_RDWR)
            except (OSError, ValueError):  # it is closed, or listens
                continue


def acknowledged() -> dict[str, int]:
    """Return the number of bytes that the peer of each TCP connection has acknowledged so far."""
    bytes_by_peer = {}
    for connection in _connections():
        with connection:
            try:
                host, port, *_ = connection.getpeername()
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
            except OSError:  # it is closed, or listens
                continue
            kind = "ipv6" if ":" in host else "ipv4"
            peer = f"[{host}]:{port}" if kind == "ipv6" else f"{host}:{port}"
            bytes_by_peer[f"{kind}:{peer}"] = int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)
    return bytes_by_peer


def _connections() -> Iterator[socket.socket]:
    """Yield copies of the TCP sockets of this process."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - only the numbers matter
        try:
            copy = os.dup(int(name))
        except OSError:
            continue
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # it is not a socket
            os.close(copy)
            continue
        if connection.family in {socket.AF_INET, socket.AF_INET6}:
            yield connection
        else:
            connection.close()


def _parsed(peer: str) -> tuple[IPv4Address | IPv6Address, int] | None:
    kind, _, address = unquote(peer).partition(":")
    host, _, port = address.rpartition(":")
    try:
        return (_unmapped(host.strip("[]")), int(port)) if kind in {"ipv4", "ipv6"} else None
    except ValueError:
        return None


def _unmapped(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _current_task() -> Task:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - gRPC runs each call as a task
    return task
