"""A webhook parses in one child process at a time: a ConfigMap to check, or its own policy."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.admission.test_with_policy import (
    DEV_FOR_BOB,
    allowed,
    webhook_of,
)
from tests.support.admission_reviews import admission_review
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.webhook import Webhook

QUEUES = ",".join(f"{{name: q{number}}}" for number in range(300))
POLICY = f"partitions: [{{name: default, queues: [{{name: root, queues: [{QUEUES}]}}]}}]"
CONFIG_MAP = {
    "kind": "ConfigMap",
    "metadata": {"name": "yunikorn-configs"},
    "data": {"queues.yaml": POLICY},
}
CHECKS = 2
"""How many ConfigMaps are always being checked or waiting."""


class Children:
    """Looks for the child processes of a process."""

    def __init__(self, pid: int) -> None:
        self.seen: set[int] = set()
        self.most = 0
        """How many children there were in two looks, one after the other."""
        self._before: set[int] = set()
        self._tasks = Path(f"/proc/{pid}/task")

    def look(self) -> None:
        """Look for children."""
        children: set[int] = set()
        for listed in self._tasks.glob("*/children"):
            try:
                children.update(map(int, listed.read_text().split()))
            except (FileNotFoundError, ProcessLookupError):
                continue
        self.seen |= children
        children = set(filter(is_running, children))
        self.most = max(self.most, len(children & self._before))
        self._before = children


def is_running(pid: int) -> bool:
    """Return whether a process has memory, and has not been killed: on a busy machine, a process
    with a low priority takes a while to end.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = dict(line.split(":", 1) for line in lines)
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return "VmRSS" in fields and not pending & 1 << (signal.SIGKILL - 1)


@contextmanager
def observed(pid: int) -> Iterator[Children]:
    """Look for the children of a process during the block."""
    children, ended = Children(pid), threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            children.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield children
    finally:
        ended.set()
        watcher.join()


@contextmanager
def checks_in_progress(webhook: Webhook) -> Iterator[list[int]]:
    """Have ConfigMaps checked without a pause. Yields the statuses of the answers so far."""
    body = admission_review(
        *("bob", CONFIG_MAP), namespace="yunikorn", name="yunikorn-configs", operation="UPDATE"
    )
    ended, statuses = threading.Event(), list[int]()

    def check() -> None:
        while not ended.is_set():
            answer = webhook.http.post("/validate-conf?timeout=30s", json=body)
            statuses.append(answer.status_code)

    checking = [threading.Thread(target=check) for _ in range(CHECKS)]
    for thread in checking:
        thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        for thread in checking:
            thread.join()


@pytest.mark.timeout(400)
def test_a_reload_takes_its_turn_among_checks(tmp_path: Path) -> None:
    with webhook_of(tmp_path) as webhook:
        assert not allowed(webhook, "bob")
        with observed(webhook.server.pid) as children, checks_in_progress(webhook) as statuses:
            eventually(lambda: HTTPStatus.OK in statuses, True)
            replace(tmp_path / "queues.yaml", DEV_FOR_BOB)
            eventually(lambda: allowed(webhook, "bob"), True)
    assert {*statuses} <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
    assert len(children.seen) > 1
    assert children.most == 1
