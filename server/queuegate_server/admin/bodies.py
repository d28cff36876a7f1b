"""Reads request bodies and writes responses, with limits on memory and time.

Nearly all bodies are small and are answered immediately. A request with a large body must acquire a
slot before the body is read, and one with many entries once its body has been read; both hold it
until the response has been sent or, on the HTTP port, made. If no slot is free, the request waits,
because clients such as the Kubernetes API server sleep for a second after a rejection.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from aiohttp import hdrs, web

from queuegate_server.admin.headers import media_type

JSON: Final = "application/json"
RESPONSE_SECONDS: Final = 2.0
"""The time limit for clients to read responses larger than the send buffers."""


class BodyLimits(NamedTuple):
    """The limits on the bodies that a port accepts."""

    most_bytes: int
    small_bytes: int
    """The maximum size of a small body, which needs no slot."""
    small_entries: int
    """The maximum number of list and map entries in a small body."""
    small_seconds: float
    large_seconds: float
    """The time limits for receiving a small or large body."""
    wait_seconds: float
    """How long a body that is not small may wait for a slot."""
    other_type: int = 415
    """The status of a body that is not JSON, or is compressed."""

    def is_small(self, body: bytes) -> bool:
        """Return whether a body takes so little time that it is decoded and searched at once."""
        return len(body) <= self.small_bytes and count_entries(body) <= self.small_entries


class RequestRefusal(Exception):
    """The request is rejected with an HTTP error. `outcome` is used for metrics."""

    def __init__(self, status: int, outcome: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.outcome = outcome


def count_entries(text: bytes) -> int:
    """Return at least the number of map and list entries in JSON text, without parsing it.

    The first entry of each follows a bracket, and the others a comma. Some may be in strings, or
    brackets of an empty map or list.
    """
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def arrived_body(limits: BodyLimits, request: web.BaseRequest) -> bytes | None:
    """Return a body of at most `limits.small_bytes` that has arrived with the head of its request,
    or None. Raises RequestRefusal.
    """
    length = checked_length(limits, request)
    if length > limits.small_bytes or request.content.total_bytes != length:
        return None
    return request.content.read_nowait()


@asynccontextmanager
async def received_body(
    limits: BodyLimits, slots: asyncio.Semaphore, request: web.BaseRequest
) -> AsyncIterator[bytes]:
    """Yield the request body, and hold a slot for the duration of the context unless it is small.
    Raises RequestRefusal, for example if no slot becomes free.
    """
    length = checked_length(limits, request)
    if length > limits.small_bytes:
        async with held_slot(limits, slots):
            yield await _read(limits, request, length)
        return
    body = await _read(limits, request, length)
    if limits.is_small(body):
        yield body
        return
    async with held_slot(limits, slots):
        yield body


def checked_length(limits: BodyLimits, request: web.BaseRequest) -> int:
    """Return the length of a body that may be read. Raises RequestRefusal."""
    length = request.content_length
    if length is None:
        # Clients state the length. Chunks of one byte would take a thousand times as long.
        raise RequestRefusal(411, "malformed", "the request has no Content-Length header")
    if length > limits.most_bytes:
        message = f"the body is longer than {limits.most_bytes} bytes"
        raise RequestRefusal(413, "too_large", message)
    if media_type(request) != JSON:
        raise RequestRefusal(limits.other_type, "malformed", f"the content type must be {JSON}")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise RequestRefusal(limits.other_type, "malformed", "the body must not be compressed")
    return length


@asynccontextmanager
async def held_slot(limits: BodyLimits, slots: asyncio.Semaphore) -> AsyncIterator[None]:
    """Hold a slot for the duration of the context. Raises RequestRefusal if none becomes free."""
    try:
        async with asyncio.timeout(limits.wait_seconds):
            await slots.acquire()
    except TimeoutError:
        message = "too many large bodies in progress"
        raise RequestRefusal(429, "overloaded", message) from None
    try:
        yield
    finally:
        slots.release()


async def _read(limits: BodyLimits, request: web.BaseRequest, length: int) -> bytes:
    if request.content.total_bytes == length:
        return request.content.read_nowait()
    seconds = limits.small_seconds if length <= limits.small_bytes else limits.large_seconds
    # `request.read()` would store the body in the request. Requests are part of reference cycles,
    # so the body would stay in memory until the next garbage collection.
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.content.iter_any():
                body += part
                # Yield to the event loop, because iterating over buffered chunks does not.
                await asyncio.sleep(0)
            return bytes(body)
    except TimeoutError:
        raise RequestRefusal(408, "slow", "the body took too long to arrive") from None
    except (OSError, web.RequestPayloadError):
        raise RequestRefusal(400, "disconnected", "the body ended early") from None


async def write_response(request: web.BaseRequest, response: web.Response) -> None:
    """Send a response. If the client does not read it in time, abort the connection."""
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except (OSError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()


def error_response(status: int, message: str) -> web.Response:
    """Return an HTTP error response that closes the connection."""
    response = web.Response(status=status, text=f"{message}\n")
    # Close the connection, because the rest of the body may still be in transit.
    response.force_close()
    if status in {429, 503}:
        response.headers["Retry-After"] = "1"
    return response
