"""The documents that the port serves: the metadata of the decision point, and OpenAPI."""

import json
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from queuegate_server.transports.http import answers

EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
METADATA: Final = "/.well-known/authzen-configuration"
OPENAPI: Final = "/openapi.json"
_ENDPOINTS: Final = {
    "access_evaluation_endpoint": EVALUATION,
    "access_evaluations_endpoint": EVALUATIONS,
    "search_subject_endpoint": "/access/v1/search/subject",
    "search_resource_endpoint": "/access/v1/search/resource",
    "search_action_endpoint": "/access/v1/search/action",
}
"""The members of the metadata that name an endpoint."""


def document(path: str, request: web.BaseRequest, public_url: str | None) -> bytes:
    """Return the JSON of a document.

    Args:
        path: The path of the request.
        request: The request, whose host is that of the URLs unless the settings state one.
        public_url: The URL by which callers reach the port.

    Raises:
        HTTPNotFound: There is no such document.
        HTTPMethodNotAllowed: The request is not a GET.
    """
    url = public_url or f"{request.scheme}://{request.headers.get('Host', '')}"
    # For an identifier with a path, the metadata is at the well-known path followed by that path.
    if path not in {OPENAPI, METADATA, METADATA + urlsplit(url).path}:
        served = ", ".join([*_ENDPOINTS.values(), METADATA, OPENAPI])
        raise web.HTTPNotFound(text=f"there is no such path; this port serves {served}")
    if request.method != "GET":
        raise web.HTTPMethodNotAllowed(request.method, ["GET"])
    if path == OPENAPI:
        return answers.encode(openapi() | {"servers": [{"url": url}]})
    endpoints = {name: f"{url}{each}" for name, each in _ENDPOINTS.items()}
    return answers.encode({"policy_decision_point": url, **endpoints})


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the endpoints, without their host."""
    file = resources.files("queuegate_server.transports.http") / "openapi.json"
    content: dict[str, Any] = json.loads(file.read_text())
    return content
