"""Floods of HTTP/2 without any credential, and of answers that nobody reads."""

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bench.open_calls import fields
from queuegate.policy.decision import RULES
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.settings.limits import Connections
from tests.resilience import http2
from tests.resilience.http2 import ACK, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame
from tests.support.sync_stream import sync_request

RESET: Final = 3
MAX_STREAMS: Final = Connections().max_streams
SECONDS: Final = 3.0
"""For how long floods last."""
WINDOW_OF_NOTHING: Final = b"\0\4\0\0\0\0"
"""The setting that lets the server send no message."""
CHECK: Final = "CheckQueueAccess"
ENTRY: Final = 4_000
"""The size of a value in the table of headers."""


@contextmanager
def connection(address: str, settings: bytes = b"") -> Iterator[socket.socket]:
    """Connect, acknowledge the server's settings, and throw away all that the server sends."""
    begin = http2.PREFACE + frame(SETTINGS, payload=settings) + frame(SETTINGS, ACK)
    with draining(http2.connected(address, begin)) as connected:
        yield connected


@contextmanager
def draining(connected: socket.socket) -> Iterator[socket.socket]:
    """Read and throw away what the server sends. A server that ends the connection ends the block,
    without an error.
    """

    def read() -> None:
        with contextlib.suppress(OSError):
            while connected.recv(65_536):
                pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with contextlib.suppress(OSError):
            yield connected
    finally:
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)
        reader.join()
        connected.close()


def numbers(count: int) -> range:
    """Return as many numbers of streams that a client opens."""
    return range(1, 2 * count, 2)


def metadata(address: str) -> None:
    """Name one large header thousands of times in each call, and never acknowledge the settings,
    so that the server's bound on metadata does not count yet. Other callers go on for a while.
    """
    length, rest = b"\x7f", ENTRY - 127
    while rest >= 128:
        length, rest = length + bytes([rest % 128 + 128]), rest // 128
    entry = b"\x40\x01x" + length + bytes([rest]) + b"a" * ENTRY
    with draining(http2.connected(address, http2.BEGIN)) as connected:
        connected.sendall(frame(HEADERS, END_HEADERS, 1, fields(CHECK) + entry))
        for number in numbers(808)[1:]:
            block = fields(CHECK) + b"\xbe" * 4_000
            connected.sendall(frame(HEADERS, END_HEADERS, number, block))
        time.sleep(SECONDS)


def resets(address: str) -> None:
    """Begin calls and cancel them at once."""
    end = time.monotonic() + SECONDS
    number = 1
    with connection(address) as connected:
        while time.monotonic() < end:
            some = range(number, number + 200, 2)
            cancel = (8).to_bytes(4)
            connected.sendall(
                b"".join(http2.headers(CHECK, one) + frame(RESET, 0, one, cancel) for one in some)
            )
            number = some.stop


def _held(address: str, sent: bytes, connections: int, settings: bytes = b"") -> None:
    """Send the same on several connections, one after the other, and hold them."""
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            connected = stack.enter_context(connection(address, settings))
            with contextlib.suppress(OSError):
                connected.sendall(sent)
            time.sleep(SECONDS / connections)
        time.sleep(1)


def silent_calls(address: str) -> None:
    """Begin more calls than the server takes, and send no requests."""
    calls = b"".join(http2.headers(CHECK, number) for number in numbers(MAX_STREAMS))
    _held(address, calls, 140)


def calls_without_a_message(address: str) -> None:
    """End more calls than the server takes without having sent a request."""
    both = END_HEADERS | END_STREAM
    calls = b"".join(frame(HEADERS, both, number, fields(CHECK)) for number in numbers(MAX_STREAMS))
    _held(address, calls, 140)


def small_answers_unread(address: str) -> None:
    """Ask more than the server answers at once, and read no answer."""
    calls = b"".join(
        http2.headers(CHECK, number) + http2.question(number) for number in numbers(MAX_STREAMS)
    )
    _held(address, calls, 140, WINDOW_OF_NOTHING)


def bombs(address: str) -> None:
    """Send requests that unpack to a thousand times their size."""
    packed = gzip.compress(bytes(50 << 20))
    request = b"\1" + len(packed).to_bytes(4) + packed
    headers = fields(CHECK) + b"\0\x0dgrpc-encoding\x04gzip"
    end = time.monotonic() + SECONDS
    with connection(address) as connected:
        for number in numbers(100_000):
            connected.sendall(
                frame(HEADERS, END_HEADERS, number, headers) + _frames(number, request, END_STREAM)
            )
            time.sleep(0.02)
            if time.monotonic() > end:
                return


def large_answers_unread(address: str) -> None:
    """Ask batches of many questions, and read no answer."""
    batch = batch_of(10_000).SerializeToString()
    _each_on_its_own_thread(address, "BatchCheckQueueAccess", batch, END_STREAM)


def streams_unread(address: str) -> None:
    """Open streams of gates, and read neither the policy nor anything else."""
    first = sync_request("open", rules=[RULES]).SerializeToString()
    _each_on_its_own_thread(address, "Sync", first, 0)


def batch_of(count: int) -> access_pb2.BatchCheckQueueAccessRequest:
    check = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice"),
        queue="root.open",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    return access_pb2.BatchCheckQueueAccessRequest(checks=[check] * count)


def _each_on_its_own_thread(address: str, method: str, message: bytes, flags: int) -> None:
    """Send a message on every stream of twenty connections that read no answers."""

    def send() -> None:
        with connection(address, WINDOW_OF_NOTHING) as connected:
            for number in numbers(MAX_STREAMS):
                connected.sendall(http2.headers(method, number))
            for number in numbers(MAX_STREAMS):
                connected.sendall(_data(number, message, flags))
                time.sleep(SECONDS / MAX_STREAMS)
            time.sleep(SECONDS)

    senders = [threading.Thread(target=send) for _ in range(20)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def _data(stream: int, message: bytes, flags: int) -> bytes:
    """Return the frames of a message; the last one has the flags."""
    return _frames(stream, b"\0" + len(message).to_bytes(4) + message, flags)


def _frames(stream: int, sent: bytes, flags: int) -> bytes:
    parts = [sent[begin : begin + 16_000] for begin in range(0, len(sent), 16_000)]
    last = len(parts) - 1
    return b"".join(
        frame(http2.DATA, flags if place == last else 0, stream, part)
        for place, part in enumerate(parts)
    )


FLOODS: Final[dict[str, Callable[[str], None]]] = {
    each.__name__: each
    for each in (
        metadata,
        resets,
        silent_calls,
        calls_without_a_message,
        bombs,
        small_answers_unread,
        large_answers_unread,
        streams_unread,
    )
}
