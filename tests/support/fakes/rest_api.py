"""An HTTP server of an API, in threads, whose answers are computed and can be made faulty.

All resolvers that ask one need the settings and files at the top.
"""

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme

JSON = "application/json"
# A busy machine must not decide the outcome.
PATIENT = {"connect_timeout": 30, "request_timeout": 30, "lookup_timeout": 60}


def secret_file(folder: Path, secret: str) -> str:
    """Return the path of a new file with a secret."""
    file = folder / "secret"
    file.write_text(secret)
    file.chmod(0o600)
    return str(file)


def ca_file(folder: Path, ca: trustme.CA) -> str:
    """Return the path of a new file with the certificate of an authority."""
    file = folder / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    return str(file)


@dataclass(frozen=True)
class Request:
    """A request that the server received."""

    method: str
    path: str
    """As it was sent, without the query."""
    query: Mapping[str, str]
    form: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """What the server sends."""

    status: int = 200
    body: Any = None
    """JSON, or bytes to send as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    """End the connection after as many bytes of the body."""
    raw: Iterable[bytes] | None = None
    """Send this instead of everything else, and end the connection."""
    hangs: bool = False
    """Send nothing until the server stops."""

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answer = Callable[[Request], Reply]


class RestApi:
    """A running server."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        """How many clients have connected."""
        self.fault: Callable[[Request], Reply | None] = lambda _: None
        """Returns the reply to send instead of the usual one, if any."""
        self.url = ""
        self.tls: ssl.SSLContext | None = None
        """None without TLS."""
        self.stopped = threading.Event()

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.fault(request) or self.answer(request)

    def paths(self) -> list[str]:
        return [each.path for each in self.requests]


@contextmanager
def running_api(answer: Answer, ca: trustme.CA | None = None, port: int = 0) -> Iterator[RestApi]:
    """Run a server on 127.0.0.1; with TLS if a CA is given."""
    api = RestApi(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def log_message(self, *_: Any) -> None:
            pass

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(length).decode()
            target = urlsplit(self.path)
            reply = api.reply(
                Request(
                    self.command,
                    target.path,
                    _first(target.query),
                    _first(body),
                    dict(self.headers),
                )
            )
            if reply.hangs:
                api.stopped.wait(60)
                self.close_connection = True
                return
            if reply.raw is not None:
                self.close_connection = True
                for piece in reply.raw:
                    self.connection.sendall(piece)
                return
            content = reply.content
            headers = {
                "Date": self.date_time_string(),
                "Content-Type": JSON,
                "Content-Length": str(len(content)),
                **reply.headers,
            }
            self.send_response_only(reply.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: reply.cut])
            self.wfile.flush()
            self.close_connection |= reply.cut is not None

        do_GET = do_POST = do_CONNECT = _serve  # noqa: N815 - names that the base class calls

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            api.connections += 1
            return super().get_request()

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that have gone."""

    server = Server(("127.0.0.1", port), Handler)
    scheme = "http"
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("127.0.0.1").configure_cert(context)
        api.tls = context
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    api.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=lambda: server.serve_forever(0.05))
    thread.start()
    try:
        yield api
    finally:
        api.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _first(query: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
