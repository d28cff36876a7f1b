"""A server that requires TLS and a token."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.servers.queuegate_server import running_server

_CERTIFICATES: Final = Path(__file__).parents[2] / "contract" / "tls"
_TOKEN: Final = "qg_of-the-tests-and-long-enough-for-one"


@dataclass(frozen=True, slots=True)
class GuardedServer:
    """The address of the server, and the credentials of a caller."""

    port: int
    ca_file: Path
    token_file: Path

    @property
    def address(self) -> str:
        """Return the address with the name in the certificate."""
        return f"localhost:{self.port}"


@contextmanager
def guarded_server(folder: Path, *arguments: str) -> Iterator[GuardedServer]:
    """Run the server. Its caller `shim` has a token for the roles check and read, and may send
    groups.
    """
    token_file, hashes, settings = (folder / name for name in ("token", "hashes", "settings.yaml"))
    token_file.write_text(f"{_TOKEN}\n")
    hashes.write_text(f"shim:{hashlib.sha256(_TOKEN.encode()).hexdigest()}\n")
    server, key = (_CERTIFICATES / f"server.{kind}" for kind in ("pem", "key"))
    listener = {
        "address": "127.0.0.1:0",
        "tls": {"certificate_file": str(server), "key_file": str(key)},
    }
    callers = {
        "loopback": {"roles": []},
        "token_file": str(hashes),
        "tokens": {"shim": {"roles": ["check", "read"], "assert_groups": True}},
    }
    settings.write_text(json.dumps({"listen": [listener], "callers": callers}))
    with running_server("--config", str(settings), *arguments, listen=()) as running:
        port = int(running.address.rpartition(":")[2])
        yield GuardedServer(port, _CERTIFICATES / "ca.pem", token_file)
