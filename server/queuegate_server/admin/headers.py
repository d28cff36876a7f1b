"""The headers of requests that strangers send, read in time that grows with their length.

The library parses a content type with the parser of e-mails, whose time grows with the square of
the number of parameters: one request stops the process for seconds. It makes an object of each
cookie.
"""

from typing import Final

from aiohttp import web

MAX_QUERY_FIELDS: Final = 50
"""Pages have fewer than ten."""


def media_type(request: web.Request) -> str:
    """Return the type of the body in lower case, without parameters; empty if none is stated."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def cookie(request: web.Request, name: str) -> str | None:
    """Return the value of a cookie that this server has set; None without one."""
    for pair in request.headers.get("Cookie", "").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return None


def has_long_query(request: web.Request) -> bool:
    """Return whether a query has more fields than any page takes."""
    return request.rel_url.raw_query_string.count("&") >= MAX_QUERY_FIELDS
