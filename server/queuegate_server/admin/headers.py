"""Parses the headers of untrusted requests in linear time.

aiohttp parses content types with Python's email parser, which takes quadratic time in the number of
parameters, so a single request could block the process for seconds. Its cookie parser would
create an object for each cookie.
"""

from typing import Final

from aiohttp import hdrs, web

MAX_QUERY_FIELDS: Final = 50
"""The maximum number of fields in a query string. Pages use fewer than ten."""


def media_type(request: web.BaseRequest) -> str:
    """Return a request's media type in lowercase, without parameters, or "" if there is none."""
    return request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()


def cookie(request: web.Request, name: str) -> str | None:
    """Return the value of a cookie set by this server, or None."""
    for pair in request.headers.get("Cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            return value
    return None


def has_long_query(request: web.Request) -> bool:
    """Return whether the query string has more fields than any page uses."""
    return request.rel_url.raw_query_string.count("&") >= MAX_QUERY_FIELDS
