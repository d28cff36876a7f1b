"""Reads request bodies and writes responses, with limits on memory and time.

Nearly all reviews are small and are answered immediately. A large review must acquire a slot before
its body is read, and a review of many entries once its body has been read; both hold it until the
response is sent. If no slot is free, the request waits, because the API server would sleep for a
second after a rejection. A waiting request is rejected shortly before the API server would time
out.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from queuegate_server.admin.headers import media_type
from queuegate_server.admission.server.review_limits import (
    LARGE_BODY_SECONDS,
    LARGE_BODY_WAIT_SECONDS,
    MAX_BODY_BYTES,
    RESPONSE_SECONDS,
    SMALL_BODY_BYTES,
    SMALL_BODY_ENTRIES,
    SMALL_BODY_SECONDS,
)

JSON: Final = "application/json"


class RequestRefusal(Exception):
    """The request is rejected with an HTTP error. `outcome` is used for metrics."""

    def __init__(self, status: int, outcome: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.outcome = outcome


def count_entries(text: bytes) -> int:
    """Return at least the number of entries of maps and lists in JSON text, without parsing it.

    The first entry of each follows a bracket, and the others a comma. Some may be in strings, or
    brackets of an empty map or list.
    """
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def is_small(body: bytes) -> bool:
    """Return whether a body takes so little time that it is decoded and searched at once."""
    return len(body) <= SMALL_BODY_BYTES and count_entries(body) <= SMALL_BODY_ENTRIES


@asynccontextmanager
async def received_body(slots: asyncio.Semaphore, request: web.Request) -> AsyncIterator[bytes]:
    """Yield the request body, and hold a slot for the duration of the context unless it is small.
    Raises RequestRefusal, for example if no slot becomes free.
    """
    length = request.content_length
    if length is None:
        # The API server states the length. Chunks of one byte would take a thousand times as long.
        raise RequestRefusal(411, "malformed", "the request has no Content-Length header")
    if length > MAX_BODY_BYTES:
        raise _too_large()
    if length > SMALL_BODY_BYTES:
        async with _slot(slots):
            yield await _read(request, length)
        return
    body = await _read(request, length)
    if is_small(body):
        yield body
        return
    async with _slot(slots):
        yield body


@asynccontextmanager
async def _slot(slots: asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(LARGE_BODY_WAIT_SECONDS):
            await slots.acquire()
    except TimeoutError:
        message = "too many large bodies in progress"
        raise RequestRefusal(429, "overloaded", message) from None
    try:
        yield
    finally:
        slots.release()


async def _read(request: web.Request, length: int) -> bytes:
    if media_type(request) != JSON:
        raise RequestRefusal(415, "malformed", f"the content type must be {JSON}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise RequestRefusal(415, "malformed", "the body must not be compressed")
    seconds = SMALL_BODY_SECONDS if length <= SMALL_BODY_BYTES else LARGE_BODY_SECONDS
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


async def write_response(request: web.Request, response: web.Response) -> None:
    """Send a response. If the client does not read it in time, abort the connection."""
    try:
        await response.prepare(request)
        await response.write_eof()
        async with asyncio.timeout(RESPONSE_SECONDS):
            await request.writer.drain()
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


def _too_large() -> RequestRefusal:
    return RequestRefusal(413, "too_large", f"the body is longer than {MAX_BODY_BYTES} bytes")
