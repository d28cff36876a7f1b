"""A real Redis (or Valkey) for tests: a private folder and a free port, stopped by its PID."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from pathlib import Path

import trustme

from tests.support.servers.free_ports import free_port
from tests.support.servers.processes import ServerProcess, running

START_SECONDS = 60


def program() -> str:
    return shutil.which("redis-server") or shutil.which("valkey-server") or "redis-server"


class RedisServer(ServerProcess):
    """A server on 127.0.0.1 that keeps nothing on disk.

    With `ca`, it only accepts TLS, with a certificate until `not_after`. With `password`, clients
    must present it. With `cluster`, it is a cluster node without slots.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ca: trustme.CA | None = None,
        not_after: datetime | None = None,
        password: str = "",
        cluster: bool = False,
        first: Sequence[str] = (),
        more: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.password = password
        self.ca = ca
        self.bus_port = free_port() if cluster else 0
        """The port on which the nodes of a cluster talk to each other."""
        if cluster:
            more = ["--cluster-enabled", "yes", "--cluster-port", str(self.bus_port), *more]
        self._first, self._more = first, more
        if ca is not None:
            ca.cert_pem.write_to_path(str(folder / "ca.pem"))
            leaf = ca.issue_cert("127.0.0.1", "localhost", not_after=not_after)
            leaf.private_key_pem.write_to_path(str(folder / "key.pem"))
            leaf.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
        if password:
            (folder / "password").write_text(f"{password}\n")

    @property
    def url(self) -> str:
        return f"{'redis' if self.ca is None else 'rediss'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = [
            "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", "--appendonly", "no",
            "--port", "0" if self.ca else str(self.port), "--loglevel", "warning",
        ]  # fmt: skip
        if self.ca is not None:
            arguments += [
                "--tls-port", str(self.port), "--tls-auth-clients", "no",
                "--tls-cert-file", str(self.folder / "cert.pem"),
                "--tls-key-file", str(self.folder / "key.pem"),
                "--tls-ca-cert-file", str(self.folder / "ca.pem"),
            ]  # fmt: skip
        if self.password:
            arguments += ["--requirepass", self.password]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [program(), *self._first, *arguments, *self._more], stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 10).close()
                if self.ca is None:
                    # Its port listens before its other sockets do.
                    self.command("PING")
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError((self.folder / "redis.log").read_text()) from None
                time.sleep(0.01)
            else:
                return

    def get(self, key: str) -> bytes | None:
        """Return the value of a key."""
        length, _, value = self.command("GET", key).partition(b"\r\n")
        return None if length == b"$-1" else value[: int(length[1:])]

    def command(self, *words: str | bytes) -> bytes:
        """Send a command on a separate plain connection, and return the first part of the raw
        answer.
        """
        with socket.create_connection(("127.0.0.1", self.port), START_SECONDS) as connection:
            if self.password:
                _send(connection, "AUTH", self.password)
                assert connection.recv(65_536).startswith(b"+OK")
            _send(connection, *words)
            return connection.recv(65_536)

    def write(self, commands: Iterable[Sequence[str | bytes]]) -> None:
        """Send many commands at once, and wait until all are done, regardless of their results."""
        with socket.create_connection(("127.0.0.1", self.port), START_SECONDS) as connection:
            answers = connection.makefile("rb")
            count = 0
            for words in commands:
                _send(connection, *words)
                count += 1
            _send(connection, "ECHO", "all of them are done")
            for line in answers:
                if line == b"all of them are done\r\n":
                    return
        raise AssertionError(f"Redis closed the connection after {count} commands")

    def pause(self, milliseconds: int) -> None:
        """Answer no client for some time (CLIENT PAUSE)."""
        assert self.command("CLIENT", "PAUSE", str(milliseconds), "ALL") == b"+OK\r\n"


def _send(connection: socket.socket, *words: str | bytes) -> None:
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    connection.sendall(
        b"*%d\r\n" % len(encoded)
        + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
    )


def running_redis(
    folder: Path,
    *,
    ca: trustme.CA | None = None,
    not_after: datetime | None = None,
    password: str = "",
    cluster: bool = False,
    more: Sequence[str] = (),
) -> AbstractContextManager[RedisServer]:
    """Run a Redis, and stop it at the end in any case."""
    build = partial(
        RedisServer, ca=ca, not_after=not_after, password=password, cluster=cluster, more=more
    )
    return running(build, folder)
