"""Requests to a server's HTTP port, as programs with any HTTP client send them."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

from tests.support.servers.queuegate_server import RunningServer

LISTEN: Final = ("--set", "http.listen=127.0.0.1:0")
EVALUATION: Final = "/access/v1/evaluation"
EVALUATIONS: Final = "/access/v1/evaluations"
RESOURCES: Final = "/access/v1/search/resource"
SUBJECTS: Final = "/access/v1/search/subject"
ACTIONS: Final = "/access/v1/search/action"


def http_address(server: RunningServer) -> str:
    """Return the address of the first HTTP port."""
    address: str = server.wait_for_log("listening over HTTP")["address"]
    return address


@dataclass(frozen=True)
class Reply:
    """A response with its JSON."""

    status: int
    headers: http.client.HTTPMessage
    content: Any


class UnixConnection(http.client.HTTPConnection):
    """A connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


def connect(address: str, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    """Return a connection to `host:port` or `unix:/path`; over TLS if there is a context."""
    if address.startswith("unix:"):
        return UnixConnection(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    if context is not None:
        return http.client.HTTPSConnection("localhost", int(port), timeout=60, context=context)
    return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=60)


def send(
    address: str,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Reply:
    """Send a request on a connection of its own.

    A body that is not bytes is sent as JSON. Underscores in the names of headers stand for hyphens.
    """
    opened = connect(address, context)
    try:
        return exchange(opened, path, body, method=method, **headers)
    finally:
        opened.close()


def exchange(
    opened: http.client.HTTPConnection,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    **headers: str,
) -> Reply:
    """Send a request on a connection, and return the response."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    opened.request(method, path, data if method == "POST" else None, sent)
    response = opened.getresponse()
    text = response.read()
    kind = response.headers.get("Content-Type", "")
    content = json.loads(text) if kind == "application/json" else text.decode()
    return Reply(response.status, response.headers, content)


def asked(user: str, action: str, queue: str, **properties: object) -> dict[str, Any]:
    """Return an evaluation about a queue, with properties of the subject."""
    subject: dict[str, Any] = {"type": "user", "id": user}
    if properties:
        subject["properties"] = properties
    return {
        "subject": subject,
        "action": {"name": action},
        "resource": {"type": "queue", "id": queue},
    }
