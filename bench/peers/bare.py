"""Bare handlers, which give the same answer to everything, and YuniKorn's own ACLs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import bare, processes
from bench.peers import install
from bench.peers.contract import installed, wire
from bench.peers.peer import Serving
from bench.peers.policy import Policy
from bench.policies import to_yaml
from queuegate.v1 import access_pb2

QUEUES: Final = "queues.yaml"


@dataclass(frozen=True, slots=True)
class Handler:
    """A small server that answers from one file, or from a folder of files."""

    name: str
    how: str
    find: Callable[[], tuple[str, list[str]]] = field(repr=False)
    """Installs it, and returns its version and its command without the last argument."""
    argument: str = bare.UNARY
    """The name of the file; empty for the folder."""
    remembers: bool = False

    def install(self) -> str:
        """See Peer."""
        return self.find()[0]

    @contextmanager
    def serve(self, policy: Policy, folder: Path) -> Iterator[Serving]:
        """See Peer."""
        folder.mkdir()
        (folder / QUEUES).write_text(to_yaml(policy.queues))
        for name in (bare.UNARY, bare.BATCH):
            (folder / name).write_bytes(_constant())
        command = [*self.find()[1], str(folder / self.argument)]
        with processes.running(command, folder / "run", on_own_core=True) as running:
            yield Serving(running, wire(is_constant=self.argument != QUEUES))


def python_program(transport: str) -> tuple[str, list[str]]:
    """Return the version of a transport, and the command of the bare handler on it."""
    return installed(transport), [sys.executable, "-m", "bench.bare", "--transport", transport]


def go_program(name: str, module: str) -> tuple[str, list[str]]:
    """Build one of our programs on a Go module. Return the module's version and the command."""
    program = install.own_go_program(name)
    return install.module_version(name, module), [str(program)]


def _constant() -> bytes:
    """Return an answer of typical length."""
    return access_pb2.CheckQueueAccessResponse(
        allowed=True,
        reason=access_pb2.REASON_GROUP,
        matched_queue="root.q1.q5.q20",
        matched_subject="group100",
        policy_revision=1,
    ).SerializeToString()
