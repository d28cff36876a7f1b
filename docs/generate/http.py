"""http.md: the endpoints over HTTP, from their OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any, Final

from docs.generate.markdown import code, page, table
from queuegate_server.transports.http import documents

_INTRODUCTION: Final = """\
With [`http.listen`](settings.md#http) set, the server answers evaluations and searches in
JSON, according to the OpenID Foundation's *Authorization API 1.0* (AuthZEN). [Ask over
HTTP](../how-to/ask-over-http.md) shows how to set it up. `GET /openapi.json` serves this page in
machine-readable form.

- Requests are POSTs of a JSON object with `Content-Type: application/json` and `Content-Length`.
  Unknown members are ignored, and `null` counts as absent. Repeated member names, `NaN`, lone
  surrogates, numbers that a double cannot hold, compressed bodies and chunks are refused.
- Callers identify themselves as they do over gRPC ([`callers`](settings.md#callers)), with a bearer
  token or a client certificate; those on loopback and Unix sockets need neither. Roles, rates,
  limits and the audit log are those of the gRPC methods that answer the requests.
- `X-Request-ID` is returned unchanged. The server logs it if it has at most 128 characters, all of
  them letters, digits or `._:/+=@-`.
- There is no CORS: no web page can read an answer. On loopback, the `Host` header of a
  request without a token must be `localhost` or a loopback IP address.
- The project's tests run each case of the levels Basic Core, Batch Core, Search Core and Discovery
  in the standard's certification scenario. The *Properties* levels need rules about attributes,
  which queue ACLs do not have. The OpenID Foundation's own conformance suite has not been run, and
  the server is not certified.
"""
_ERRORS: Final = """\
An error has a status other than 200, with the message as a JSON string. "Denied" is 200 with
`"decision": false`. Grant access only after 200 with `"decision": true`.
"""
_JSON: Final = "application/json"


def generate() -> str:
    """Return the page."""
    document = documents.openapi()
    parts = [_INTRODUCTION]
    for path, methods in document["paths"].items():
        parts += _endpoint(document, path, methods)
    schemas = document["components"]["schemas"]
    parts += ["## Members"]
    for name in ("Subject", "Action", "Resource", "RequestContext", "PageRequest", "Page"):
        parts += [f"### {_TITLES[name]}", *_members(schemas, schemas[name])]
    errors = [
        (status, each["description"])
        for status, each in document["components"]["responses"].items()
    ]
    parts += ["## Errors", _ERRORS, table(("status", "when"), errors)]
    return page("HTTP", *parts)


_TITLES: Final = {
    "Subject": "`subject`",
    "Action": "`action`",
    "Resource": "`resource`",
    "RequestContext": "`context` of an evaluation",
    "PageRequest": "`page` of a request",
    "Page": "`page` of a response",
}


def _endpoint(document: dict[str, Any], path: str, methods: dict[str, Any]) -> Iterator[str]:
    [(method, operation)] = methods.items()
    schemas = document["components"]["schemas"]
    yield f"## {code(f'{method.upper()} {path}')}"
    yield f"{operation['summary']}. {operation['description']}"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"][_JSON]
        yield _example(content["example"])
        yield from _members(schemas, _resolved(schemas, content["schema"]))
    content = operation["responses"]["200"]["content"][_JSON]
    yield "The answer:"
    yield _example(content["example"])
    yield from _members(schemas, _resolved(schemas, content["schema"]))


def _members(schemas: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the members of an object, unless all of them have tables of their own."""
    rows = [(code(name), text) for name, text in _rows(schemas, "", schema)]
    if rows:
        yield table(("member", "meaning"), rows)


def _rows(schemas: dict[str, Any], above: str, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, stated in schema.get("properties", {}).items():
        if stated.get("$ref", "").rpartition("/")[2] in _TITLES:
            continue  # it has a table of its own
        found = _resolved(schemas, stated)
        path = f"{above}{name}"
        if "items" in found:
            path, found = f"{path}[]", {**_resolved(schemas, found["items"]), **found}
        if text := found.get("description", ""):
            yield path, text
        yield from _rows(schemas, f"{path}.", found)


def _resolved(schemas: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference: str = schema.get("$ref", "")
    found: dict[str, Any] = schemas[reference.rpartition("/")[2]] if reference else schema
    return found


def _example(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"
