"""A real Trino server, from the jars in Maven, in a separate process."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.eventually import eventually
from tests.support.maven import build
from tests.support.servers.free_ports import free_port

START_SECONDS: Final = 600
"""It takes about 20 s of processor time to start."""

_RELEASE: Final = "435"
_SOURCES: Final = Path(__file__).parent
_ANSWER_SECONDS: Final = 120


class Trino:
    """A running server."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self._process = process
        self._url = f"http://127.0.0.1:{port}/v1/statement"
        self._log = log

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(errors="replace")

    @property
    def has_started(self) -> bool:
        """Whether it accepts statements. Fails if it has ended."""
        assert self._process.poll() is None, self.log[-4000:]
        return "SERVER STARTED" in self.log

    def query(self, user: str, statement: str) -> list[list[Any]] | str:
        """Return the rows of a statement, or its error."""
        rows: list[list[Any]] = []
        url, data = self._url, statement.encode()
        while url:
            request = urllib.request.Request(url, data or None, {"X-Trino-User": user})  # noqa: S310
            try:
                with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:  # noqa: S310
                    answer = json.load(reply)
            except urllib.request.HTTPError as error:
                return f"{error.code} {error.read().decode(errors='replace')}"
            if "error" in answer:
                return str(answer["error"]["message"])
            rows += answer.get("data", ())
            url, data = answer.get("nextUri", ""), b""
        return rows


@contextmanager
def running_trino(folder: Path, jar: Path, groups: Mapping[str, str]) -> Iterator[Trino]:
    """Start a server with a plug-in, and with the properties of a group provider."""
    build(_SOURCES, "package")
    port = free_port()
    (folder / "plugin" / "queuegate").mkdir(parents=True)
    (folder / "plugin" / "queuegate" / jar.name).symlink_to(jar)
    (folder / "etc").mkdir()
    _write(folder / "etc" / "group-provider.properties", groups)
    server = {
        "coordinator": "true",
        "discovery.uri": f"http://127.0.0.1:{port}",
        "http-server.http.port": str(port),
        "memory.heap-headroom-per-node": "64MB",
        "node-scheduler.include-coordinator": "true",
        "node.environment": "test",
        "node.internal-address": "127.0.0.1",
        "plugin.dir": str(folder / "plugin"),
        "query.max-memory": "64MB",
        "query.max-memory-per-node": "64MB",
    }
    _write(folder / "etc" / "config.properties", server)
    built = _SOURCES / "target"
    options = ["-Xmx512m", f"-Dnode.data-dir={folder}", "-Dconfig=etc/config.properties"]
    log = folder / "trino.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            ["java", *options, "-cp", f"{built}/harness.jar:{built}/lib/*", "Harness", _RELEASE],
            stdout=output,
            stderr=output,
            cwd=folder,
        ) as process,
    ):
        try:
            trino = Trino(process, port, log)
            eventually(lambda: trino.has_started, expected=True, seconds=START_SECONDS)
            yield trino
        finally:
            process.kill()


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
