"""Responses with JSON: those of aiohttp, and one for the usual case that is written at once."""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp import HttpVersion11, hdrs, web

from queuegate_server.admin.bodies import JSON
from queuegate_server.admin.connections import HEADERS
from queuegate_server.config_fields import KIB
from queuegate_server.transports.http import answers
from queuegate_server.transports.http.context import REQUEST_ID
from queuegate_server.transports.http.failures import RETRIED, HttpFailure

_HEADERS: Final = {**HEADERS, hdrs.CONTENT_TYPE: JSON, hdrs.SERVER: "queuegate"}
_MAX_PLAIN_BYTES: Final = 8 * KIB
"""Less than the buffer of a connection, so that writing it never waits."""


def json_response(status: int, body: bytes) -> web.Response:
    """Return a response. It ends with a newline, because a shell's prompt may follow it."""
    return web.Response(body=body + b"\n", status=status, headers=_HEADERS)


def failed_response(failure: HttpFailure) -> web.Response:
    """Return the response for an error, whose body is the message as a JSON string."""
    response = json_response(failure.status, answers.encode(failure.message))
    if failure.status in RETRIED:
        response.headers[hdrs.RETRY_AFTER] = str(failure.retry_seconds)
    if failure.status == HTTPStatus.UNAUTHORIZED:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    if failure.allowed_method:
        response.headers[hdrs.ALLOW] = failure.allowed_method
    return response


class PlainResponse(web.StreamResponse):
    """A short response with status 200 and no headers of its own, after which the connection stays
    open. aiohttp's own takes a sixth of the time of a whole request to build and send.
    """

    def __init__(self, body: bytes) -> None:
        """`body` is JSON. A newline follows it, as in `json_response`."""
        super().__init__()
        self._json = body

    @property
    def keep_alive(self) -> bool:
        """Tell aiohttp that the connection stays open."""
        return True

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send the response."""
        head = _head(int(time.time()))
        await request.writer.write(b"%s%d\r\n\r\n%s\n" % (head, len(self._json) + 1, self._json))

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing, because the response has been sent."""


def is_plain(request: web.BaseRequest, body: bytes) -> bool:
    """Return whether PlainResponse may answer a request."""
    transport = request.transport
    return (
        len(body) < _MAX_PLAIN_BYTES
        and REQUEST_ID not in request.headers
        and request.keep_alive
        and request.version >= HttpVersion11  # before, a header says that it stays open
        and request.content.is_eof()
        and transport is not None
        and not transport.get_write_buffer_size()
    )


@lru_cache(maxsize=1)
def _head(now: int) -> bytes:
    """Return the head in a second of Unix time, but for the length of the body."""
    headers = _HEADERS | {hdrs.DATE: formatdate(now, usegmt=True), hdrs.CONTENT_LENGTH: ""}
    lines = "\r\n".join(f"{name}: {value}" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\n{lines}".encode()
