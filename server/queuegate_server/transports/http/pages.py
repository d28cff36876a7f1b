"""Tokens for the pages of a search, which belong to one request."""

import base64
import hashlib
import json
from typing import Any, Final, NamedTuple

from queuegate_server.transports.http.strict_json import Json, Malformed, optional

_HASH_BYTES: Final = 12
_LIMIT_BYTES: Final = 2
_MAX_LIMIT: Final = 2 ** (8 * _LIMIT_BYTES) - 1
_ENTITIES: Final = ("subject", "action", "resource", "context")


class RequestedPage(NamedTuple):
    """The page that a request asks for."""

    limit: int
    """The maximum number of results; 0 for the default."""
    after: str
    """The token of the registered handler; an empty string for the first page."""
    digest: bytes
    """A hash of the rest of the request, the same on all replicas."""

    def document(self, next_token: str, count: int) -> Json:
        """Return the object that precedes the results, for the handler's next token."""
        if next_token:
            limit = self.limit.to_bytes(_LIMIT_BYTES, "big")
            token = self.digest + limit + next_token.encode()
            next_token = base64.urlsafe_b64encode(token).decode()
        return {"next_token": next_token, "count": count}


def requested_page(method: str, members: Json) -> RequestedPage:
    """Return the page that a search asks for.

    The standard requires that a request with a token repeats all other members, of which
    `page.limit` may be left out.

    Args:
        method: The method that answers the search.
        members: The request.

    Raises:
        Malformed: A member is malformed, or the token belongs to another request.
    """
    page = optional(members, "page", dict) or {}
    limit = optional(page, "page.limit", int)
    if limit is not None and limit < 1:
        raise Malformed("page.limit: must be at least 1")
    limit = min(limit or 0, _MAX_LIMIT)
    entities: list[Any] = [method, *(members.get(name) for name in _ENTITIES)]
    digest = hashlib.sha256(json.dumps(entities, sort_keys=True).encode()).digest()[:_HASH_BYTES]
    token = optional(page, "page.token", str)
    if not token:
        return RequestedPage(limit, "", digest)
    try:
        data = base64.b64decode(token, altchars=b"-_", validate=True)
        after = data[_HASH_BYTES + _LIMIT_BYTES :].decode()
    except ValueError:
        raise Malformed("page.token: is not a page token") from None
    first = int.from_bytes(data[_HASH_BYTES : _HASH_BYTES + _LIMIT_BYTES], "big")
    if data[:_HASH_BYTES] != digest or limit not in {0, first} or not after:
        raise Malformed(
            "page.token: belongs to another request: repeat all members of the request that"
            " returned it, or omit it to begin again"
        )
    return RequestedPage(first, after, digest)
