"""The servers that pages describe: plain, behind a Unix socket, and guarded by TLS and a token."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.support.servers.guarded_server import guarded_server
from tests.support.servers.queuegate_server import running_server

PLAIN: Final = "127.0.0.1:50051"
_POLICY: Final = ("--policy", "examples/queues.yaml")


@contextmanager
def documented_servers(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run the servers, and put `ca.pem` and `token` into the folder.

    Yields the replacements for the addresses in pages.
    """
    socket = folder / "socket"
    with ExitStack() as stack:
        plain = stack.enter_context(running_server(*_POLICY))
        stack.enter_context(running_server(*_POLICY, listen=(f"unix:{socket}",)))
        guarded = stack.enter_context(guarded_server(folder, *_POLICY))
        (folder / "ca.pem").symlink_to(guarded.ca_file)
        yield {
            PLAIN: plain.address,
            "queuegate.example.com:50052": guarded.address,
            "/run/queuegate.sock": str(socket),
        }
