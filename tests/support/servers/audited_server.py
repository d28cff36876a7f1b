"""A server with an audit log, and its records."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import queuegate
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.admin_port import LISTEN
from tests.support.servers.queuegate_server import RunningServer, running_server

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: team, submitacl: "alice staff"}
"""


def audit_records(folder: Path, *names: str) -> list[dict[str, Any]]:
    """Return the records of the log. Fails if one of them is not a complete line of JSON."""
    records = []
    for name in names or ("audit.log",):
        text = (folder / name).read_bytes().decode("ascii") if (folder / name).exists() else ""
        assert not text or text.endswith("\n")
        records += [json.loads(line) for line in text.splitlines()]
    return records


ALLOWED, DENIED = ("alice", "root.team"), ("bob", "root.team")


@contextmanager
def audited_server(
    folder: Path, path: str = "audit.log", arguments: Sequence[str] = (), **audit: Any
) -> Iterator[tuple[RunningServer, queuegate.Client]]:
    (folder / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(folder)
    directory.answer({"carol": {"groups": ["staff"]}, "dave": {"failed": "down"}})
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
        "audit": {"path": path if path == "-" else str(folder / path), **audit},
    }
    no_retry = queuegate.Retry(attempts=1)
    with (
        running_server(
            "--config", settings_file(folder, settings), *LISTEN, *arguments,
            environment=directory.environment,
        ) as server,
        queuegate.Client(server.address, timeout=60, retry=no_retry) as client,
    ):  # fmt: skip
        yield server, client


def decision_of(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(key) for key in ("user", "queue", "decision", "reason"))
