"""The fields of forms, in both encodings of browsers, within a bound."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import BodyPartReader, web

MAX_FIELDS: Final = 50
_LONG: Final = 64 * 1024
"""Characters from which decoding takes more than a few milliseconds."""
_URLENCODED: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"


async def posted_fields(request: web.Request, most: int) -> Sequence[tuple[str, str]]:
    """Return the fields of a form and their values; of a file, its content.

    Args:
        request: The request.
        most: How many bytes the values may have together, with their encoding if they are in one.

    Raises:
        ValueError: The form is malformed, or not UTF-8.
        HTTPRequestEntityTooLarge: It is too large.
        HTTPUnsupportedMediaType: It is no form.
    """
    if request.content_type == _URLENCODED:
        data = bytearray()
        async for chunk in request.content.iter_any():
            data += chunk
            _check_size(len(data), most)
        parse = partial(parse_qsl, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        text = data.decode()
        return await asyncio.to_thread(parse, text) if len(text) > _LONG else parse(text)
    if request.content_type == _MULTIPART:
        return await _parts(request, most)
    raise web.HTTPUnsupportedMediaType


async def _parts(request: web.Request, most: int) -> Sequence[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    size = 0
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        if not isinstance(part, BodyPartReader) or part.name is None:
            raise ValueError("a part is not a field")
        if len(fields) == MAX_FIELDS:
            raise ValueError("too many fields")
        data = bytearray()
        while chunk := await part.read_chunk():
            data += chunk
            size += len(chunk)
            _check_size(size, most)
        fields.append((part.name, data.decode()))
    return fields


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise web.HTTPRequestEntityTooLarge(most, size)
