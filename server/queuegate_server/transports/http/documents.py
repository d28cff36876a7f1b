"""The documents that the port serves: the metadata of the decision point, and OpenAPI."""

import json
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from queuegate_server.transports.http import answers
from queuegate_server.transports.http.endpoints import ENDPOINTS
from queuegate_server.transports.http.failures import CallFailed, HttpFailure

METADATA: Final = "/.well-known/authzen-configuration"
OPENAPI: Final = "/openapi.json"


def document(path: str, request: web.BaseRequest, public_url: str | None) -> bytes:
    """Return the JSON of a document.

    Args:
        path: The path of the request.
        request: The request, whose host is that of the URLs unless the settings state one.
        public_url: The URL by which callers reach the port.

    Raises:
        CallFailed: There is no such document, or the `Host` header is malformed.
    """
    url = public_url or f"{request.scheme}://{request.headers.get('Host', '')}"
    try:
        url.encode()
        below = urlsplit(url).path
    except ValueError:
        message = "the Host header must be a host name or an address"
        raise CallFailed(HttpFailure(HTTPStatus.BAD_REQUEST, message)) from None
    # For an identifier with a path, the metadata is at the well-known path followed by that path.
    if path not in {OPENAPI, METADATA, METADATA + below}:
        served = ", ".join([*ENDPOINTS, METADATA, OPENAPI])
        message = f"there is no such path; this port serves {served}"
        raise CallFailed(HttpFailure(HTTPStatus.NOT_FOUND, message))
    if path == OPENAPI:
        return answers.encode(openapi() | {"servers": [{"url": url}]})
    endpoints = {f"{each.name}_endpoint": url + path for path, each in ENDPOINTS.items()}
    return answers.encode({"policy_decision_point": url, **endpoints})


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the endpoints, without their host."""
    file = resources.files("queuegate_server.transports.http") / "openapi.json"
    content: dict[str, Any] = json.loads(file.read_text())
    return content
