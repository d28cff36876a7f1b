"""The OpenAPI document: its examples are what the server answers, and its schemas fit them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from queuegate_server.transports.http import documents
from queuegate_server.transports.http.endpoints import ENDPOINTS
from tests.support.servers.http_port import LISTEN, http_address, send
from tests.support.servers.queuegate_server import running_server

DOCUMENT: dict[str, Any] = documents.openapi()
JSON = "application/json"
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server("--policy", str(Path("examples/queues.yaml")), *LISTEN) as server:
        yield http_address(server)


def validate(content: object, schema: dict[str, Any]) -> None:
    """Check a value against a schema of the document."""
    components = {"components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema | components).validate(content)


def test_all_paths_are_described() -> None:
    assert set(DOCUMENT["paths"]) == {*ENDPOINTS, documents.METADATA}


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_an_example(address: str, path: str, method: str, operation: dict[str, Any]) -> None:
    body = None
    if "requestBody" in operation:
        asked = operation["requestBody"]["content"][JSON]
        body = asked["example"]
        validate(body, asked["schema"])
    described = operation["responses"]["200"]["content"][JSON]
    reply = send(address, path, body, method=method.upper(), Host="127.0.0.1:8080")
    assert (reply.status, reply.content) == (200, described["example"])
    validate(reply.content, described["schema"])


@pytest.mark.parametrize("path", ENDPOINTS)
def test_an_error_is_a_string(address: str, path: str) -> None:
    reply = send(address, path, {})
    described = DOCUMENT["components"]["responses"][str(reply.status)]["content"][JSON]
    validate(reply.content, described["schema"])


def test_the_document_is_served_with_its_host(address: str) -> None:
    served = send(address, "/openapi.json", method="GET", Host="localhost:1").content
    assert served == DOCUMENT | {"servers": [{"url": "http://localhost:1"}]}


def test_schemas_are_closed_under_reference() -> None:
    found = {
        text.split('"')[0]
        for text in str(DOCUMENT).replace("'", '"').split("#/components/schemas/")[1:]
    }
    assert found <= set(DOCUMENT["components"]["schemas"])
