"""The part of the Kubernetes API that returns namespaces, over real HTTPS."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import trustme

TOKEN = "token-of-the-account"


class FakeApiServer:
    """Answers `GET /api/v1/namespaces/NAME` for clients with the token."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, str]] = {}
        self.failing = False
        self.babbling = False
        self.asked: list[str] = []
        self._ca = trustme.CA()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.removeprefix("/api/v1/namespaces/")
                api.asked.append(name)
                if api.babbling:
                    self.wfile.write(b"no status line\r\n\r\n")
                    return
                status, content = api.answer(name, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert("127.0.0.1").configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}"

    def answer(self, name: str, authorization: str) -> tuple[int, dict[str, Any]]:
        if authorization != f"Bearer {TOKEN}":
            return 401, {}
        if self.failing:
            return 500, {}
        if name not in self.namespaces:
            return 404, {}
        return 200, {"metadata": {"name": name, "annotations": self.namespaces[name]}}

    def write_account(self, folder: Path) -> Path:
        """Write the files that a pod gets for access to the API, and return their folder."""
        account = folder / "account"
        account.mkdir()
        (account / "token").write_text(f"{TOKEN}\n")
        self._ca.cert_pem.write_to_path(str(account / "ca.crt"))
        return account

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
