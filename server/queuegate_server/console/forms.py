"""Reads forms in both encodings used by browsers, with limits on bytes, fields and time.

The body is read in full before it is parsed, because streaming parsers process each line
separately and log the text of each error.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes

from aiohttp import web

from queuegate_server.admin.headers import media_type
from queuegate_server.rpc.errors import Overloaded

MAX_FIELDS: Final = 50
READ_SECONDS: Final = 15.0
"""The time limit for receiving a form, in seconds."""
MAX_WAITING: Final = 4
"""The maximum number of requests in `Turns`, running or waiting."""
_DRAIN_FACTOR: Final = 4
"""Oversized forms up to this multiple of the limit are still read to the end."""
_PIECE_BYTES: Final = 8 * 1024
"""The number of bytes unescaped per step."""
_MAX_PART_HEADERS: Final = 4 * 1024
_URLENCODED: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_BOUNDARY: Final = re.compile(
    r"""multipart/form-data\s*;\s*boundary=("?)([0-9A-Za-z'()+_,./:=?-]{1,70})\1\s*""",
    re.ASCII | re.IGNORECASE,
)
"""Matches a boundary (RFC 2046, section 5.1.1) without spaces; browsers never use spaces."""
_NAME: Final = re.compile(rb'Content-Disposition: *form-data; *name="([^"\r\n]*)"', re.IGNORECASE)
"""Matches the part header that contains the field name. Browsers encode quotation marks and line
breaks in names as %22, %0D and %0A."""
_FILE_FIELD: Final = b"file"
"""The name of the only field in which a form may upload a file."""
_FILE_NAME: Final = re.compile(rb"; *filename\*?=", re.IGNORECASE)
_CONTROL: Final = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPE_BYTES: Final = 2
"""The length of an escape sequence after the percent sign."""

Fields = Sequence[tuple[str, str]]


class Turns:
    """A bounded FIFO queue that lets one proposal be assessed at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    def check(self) -> None:
        """Raise Overloaded if too many requests are waiting."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} proposals are being assessed or waiting")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises Overloaded if too many requests are waiting."""
        self.check()
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1


async def posted_fields(
    request: web.Request, max_bytes: int, steps: asyncio.Lock, *, with_files: bool = False
) -> Fields:
    """Return the fields and values of a form. The value of `file` is the uploaded file's content,
    decoded from UTF-8 with the error handler `surrogateescape`.

    Args:
        request: The request.
        max_bytes: The maximum size of the body, in bytes.
        steps: The lock for processing steps, shared by all forms.
        with_files: Whether the form may be `multipart/form-data`.

    Raises:
        ValueError: The form is malformed, or a field other than an uploaded `file` is not UTF-8.
        HTTPLengthRequired: The Content-Length header is missing. Browsers always send it.
        HTTPRequestEntityTooLarge: The form is too large.
        HTTPRequestTimeout: The form took too long to arrive.
        HTTPUnsupportedMediaType: The content type is not a form's. The body is not read.
    """
    parse = _parser(request, with_files=with_files)
    if request.content_length is None:
        # Reject chunked bodies. One sent in one-byte chunks would take a thousand times as long to
        # read.
        raise web.HTTPLengthRequired
    body = await _read(request, max_bytes, steps)
    return await parse(body, steps)


async def _step(steps: asyncio.Lock) -> None:
    """Wait for the next step. One step runs per event-loop iteration, for all forms together.

    Threads would cause longer delays, because OpenSSL releases the GIL for each record and a busy
    thread would then hold it for 5 ms.
    """
    async with steps:
        await asyncio.sleep(0)


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first value of each name in a form or query, with lone surrogates replaced."""
    values: dict[str, str] = {}
    for name, value in pairs:
        values.setdefault(name, value.encode(errors="replace").decode())
    return values


def _parser(
    request: web.Request, *, with_files: bool
) -> Callable[[bytes, asyncio.Lock], Awaitable[Fields]]:
    if "Content-Encoding" not in request.headers:
        if media_type(request) == _URLENCODED:
            return _parse_urlencoded
        if media_type(request) == _MULTIPART and with_files:
            boundary = _BOUNDARY.fullmatch(request.headers.get("Content-Type", "").strip())
            if boundary is None:
                raise ValueError("there is no usable boundary")
            return partial(_parse_multipart, b"--" + boundary[2].encode())
    raise web.HTTPUnsupportedMediaType


async def _read(request: web.Request, max_bytes: int, steps: asyncio.Lock) -> bytes:
    """Read the body. Moderately oversized forms are also read to the end before they are rejected,
    because a browser that cannot finish sending may not show the response.
    """
    size, body = 0, bytearray()
    if (request.content_length or 0) <= max_bytes * _DRAIN_FACTOR:
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    if size <= max_bytes:
                        body += chunk
                    elif size > max_bytes * _DRAIN_FACTOR:
                        break
                    # Yield, so that the event loop can decrypt the next chunk.
                    await _step(steps)
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except (OSError, web.RequestPayloadError):  # the client may have disconnected
            raise ValueError("the body is malformed") from None
        if size <= max_bytes:
            return bytes(body)
    raise web.HTTPRequestEntityTooLarge(max_bytes, size)


async def _parse_urlencoded(body: bytes, steps: asyncio.Lock) -> Fields:
    pairs = body.split(b"&", MAX_FIELDS)
    if len(pairs) > MAX_FIELDS:
        raise ValueError("too many fields")
    return [
        (await _unquoted(name, steps), await _unquoted(value, steps))
        for name, _, value in (pair.partition(b"=") for pair in pairs)
        if name
    ]


async def _unquoted(text: bytes, steps: asyncio.Lock) -> str:
    """Unescape text in steps to bound memory. Each escape creates a 100-byte temporary object."""
    unquoted = bytearray()
    for piece in _pieces(text):
        if unquoted:
            await _step(steps)
        unquoted += unquote_to_bytes(piece.replace(b"+", b" "))
    return unquoted.decode()


def _pieces(text: bytes) -> Iterator[bytes]:
    """Split text into pieces without splitting an escape sequence."""
    start = 0
    while start < len(text):
        end = start + _PIECE_BYTES
        if (escape := text.rfind(b"%", max(start, end - _ESCAPE_BYTES), end)) > start:
            end = escape
        yield text[start:end]
        start = end


async def _parse_multipart(boundary: bytes, body: bytes, steps: asyncio.Lock) -> Fields:
    """Parse a multipart form (RFC 7578) as browsers send it: with CR LF line breaks, and without
    text before the first or after the last boundary. Splitting the body takes one step.
    """
    await _step(steps)
    first, *parts = (b"\r\n" + body).split(b"\r\n" + boundary, MAX_FIELDS + 1)
    if first or not parts or parts.pop().rstrip(b"\r\n") != b"--":
        raise ValueError(
            "the body does not start and end with its boundary, or has too many fields"
        )
    return [*map(_part, parts)]


def _part(part: bytes) -> tuple[str, str]:
    end = part.find(b"\r\n\r\n", 0, _MAX_PART_HEADERS)
    if end < 0 or not part.startswith(b"\r\n"):
        raise ValueError("a part has no headers, or headers that are too long")
    if _CONTROL.search(part, 2, end):
        raise ValueError("a part has control characters in its headers")
    names = [
        name[1] for line in part[2:end].split(b"\r\n") if (name := _NAME.match(line)) is not None
    ]
    if len(names) != 1:
        raise ValueError("a part is not a form field")
    is_file = names[0] == _FILE_FIELD and _FILE_NAME.search(part, 2, end)
    errors = "surrogateescape" if is_file else "strict"
    return names[0].decode(), part[end + 4 :].decode(errors=errors)
