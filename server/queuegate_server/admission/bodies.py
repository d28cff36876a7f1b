"""Reads request bodies and writes responses, with bounds on memory and time.

Nearly all reviews are small: they are read immediately, at most one per connection. Each of the few
large ones holds a slot from before it is read until its response is sent. If no slot is free, it
waits: waiting for milliseconds costs the API server nothing, while after a refusal with
`Retry-After` it sleeps for a second before it retries. A request is refused only after waiting so
long that the API server would soon give up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from queuegate_server.admin.headers import media_type

JSON: Final = "application/json"
MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The API server does not read longer requests, and stores objects of up to half this size."""
SMALL_BODY_BYTES: Final = 64 * 1024
LARGE_BODIES: Final = 4
"""The maximum number per endpoint: at most 36 MiB of large bodies are in memory."""
WAIT_SECONDS: Final = 1.5
_SMALL_BODY_SECONDS: Final = 5.0
_LARGE_BODY_SECONDS: Final = 2.0
"""The time limit for receiving a body."""
_ANSWER_SECONDS: Final = 2.0
"""The time limit for a client to read a response that does not fit into the send buffers."""


class RequestRefusal(Exception):
    """Raised to answer the request with an HTTP error."""

    def __init__(self, status: int, outcome: str, message: str) -> None:
        """Set the status, the outcome as named in metrics, and the response text."""
        super().__init__(message)
        self.status = status
        self.outcome = outcome


class LargeBodies:
    """The slots for large bodies of one endpoint."""

    def __init__(self) -> None:
        """Start with all slots free."""
        self._places = asyncio.Semaphore(LARGE_BODIES)

    @asynccontextmanager
    async def place(self, request: web.Request) -> AsyncIterator[None]:
        """Hold a slot if the body may be large. Raises RequestRefusal if no slot becomes free."""
        length = request.content_length
        if length is not None and length <= SMALL_BODY_BYTES:
            yield
            return
        if length is not None and length > MAX_BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            message = "too many large bodies in progress"
            raise RequestRefusal(429, "overloaded", message) from None
        try:
            yield
        finally:
            self._places.release()


async def read_body(request: web.Request) -> bytes:
    """Return the body. Raises RequestRefusal."""
    if media_type(request) != JSON:
        raise RequestRefusal(415, "malformed", f"the content type must be {JSON}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise RequestRefusal(415, "malformed", "the body must not be compressed")
    length = request.content_length
    small = length is not None and length <= SMALL_BODY_BYTES
    # Not with `request.read()`, which keeps the body on the request. The request is part of a
    # cycle, so the body would stay in memory until a collection.
    body = bytearray()
    try:
        async with asyncio.timeout(_SMALL_BODY_SECONDS if small else _LARGE_BODY_SECONDS):
            async for part in request.content.iter_any():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise _too_large()
                # The loop does not pause for parts that have already arrived.
                await asyncio.sleep(0)
            return bytes(body)
    except TimeoutError:
        raise RequestRefusal(408, "slow", "the body took too long to arrive") from None
    except (OSError, web.RequestPayloadError):
        raise RequestRefusal(400, "disconnected", "the body ended early") from None


async def write_answer(request: web.Request, response: web.Response) -> None:
    """Send a response, and abort the connection if the client does not read it."""
    try:
        await response.prepare(request)
        await response.write_eof()
        async with asyncio.timeout(_ANSWER_SECONDS):
            await request.writer.drain()
    except (OSError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()


def error_response(status: int, message: str) -> web.Response:
    """Return an HTTP error that closes the connection."""
    response = web.Response(status=status, text=f"{message}\n")
    # The rest of the body may still be in transit.
    response.force_close()
    if status in {429, 503}:
        response.headers["Retry-After"] = "1"
    return response


def _too_large() -> RequestRefusal:
    return RequestRefusal(413, "too_large", f"the body is longer than {MAX_BODY_BYTES} bytes")
