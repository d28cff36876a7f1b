"""A server whose policy file changes, and questions to it."""

import dataclasses
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import queuegate
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server


def queues_of(owner: str, resolver: str = "") -> str:
    """Return a policy in which only the owner may submit to `root.work`."""
    return (
        "partitions:\n"
        "  - name: default\n"
        f'    usergroupresolver: {{type: "{resolver}"}}\n'
        "    queues:\n"
        "      - name: root\n"
        "        queues:\n"
        "          - name: work\n"
        f'            submitacl: "{owner}"\n'
    )


ALICE = queues_of("alice")
BOB = queues_of("bob")


SERVED = "policy is served"
_servers = itertools.count()


@dataclass
class ReloadingServer:
    """A server, its policy file and a client. Revisions and logs count from the last `reset`, so
    that tests can share a server.
    """

    server: RunningServer
    path: Path
    client: queuegate.Client
    manager: NotifySocket
    hung_up: int = 0
    revisions_before: int = 0
    logs_before: int = 0

    def reset(self) -> None:
        """Serve the policy in which alice is the owner, as revision 1."""
        self.path.parent.mkdir(exist_ok=True)
        self.replace(ALICE)
        result = self.client.reload()
        self.revisions_before = result.revision - 1
        self.logs_before = 0
        eventually(self._log_has_revision, result.revision)
        self.logs_before = len(self.server.logs)

    def _log_has_revision(self) -> int:
        revisions: list[int] = [log["revision"] for log in self.logs if log["event"] == SERVED]
        return max(revisions)

    @property
    def logs(self) -> list[dict[str, Any]]:
        return self.server.logs[self.logs_before :]

    def count(self, event: str) -> int:
        return len([entry for entry in self.logs if entry["event"] == event])

    def replace(self, text: str) -> None:
        replace(self.path, text)

    def send_sighup(self) -> None:
        """Send SIGHUP, and return when the server has finished handling it."""
        self.hung_up += 1
        self.server.process.send_signal(signal.SIGHUP)
        self.manager.wait_for("READY=1", count=1 + self.hung_up)

    def reload(self, timeout: float = 60) -> queuegate.ReloadResult:
        result = self.client.reload(timeout=timeout)
        return dataclasses.replace(result, revision=result.revision - self.revisions_before)

    def policy(self) -> queuegate.PolicyInfo:
        policy = self.client.get_policy()
        return dataclasses.replace(policy, revision=policy.revision - self.revisions_before)

    def revision(self) -> int:
        return self.policy().revision

    def owner(self) -> list[str]:
        """Return who may use the queue."""
        return [name for name in ("alice", "bob") if self.client.check(name, "root.work")]

    def failed(self) -> bool:
        return self.policy().reload_failed_at is not None


@contextmanager
def reloading_server(path: Path, *, new_interpreter: bool = False) -> Iterator[ReloadingServer]:
    """Run a server on a policy file."""
    with (
        NotifySocket(f"@queuegate-{os.getpid()}-{next(_servers)}") as manager,
        running_server(
            *("--policy", str(path), *ADMIN),
            environment=manager.environment,
            new_interpreter=new_interpreter,
        ) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        yield ReloadingServer(server, path, client, manager)


@contextmanager
def reloading_alice(folder: Path, *, new_interpreter: bool = False) -> Iterator[ReloadingServer]:
    """Run a server on a policy file in a private folder, where alice is the owner."""
    path = folder / "policy" / "queues.yaml"
    path.parent.mkdir()
    path.write_text(ALICE)
    with reloading_server(path, new_interpreter=new_interpreter) as reloading:
        yield reloading
