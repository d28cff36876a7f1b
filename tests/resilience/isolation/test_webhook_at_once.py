"""The webhook stays within its container's memory if all that it accepts comes at once."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.conftest import policy_of
from tests.resilience.isolation.promise import MAX_MEMORY
from tests.resilience.isolation.webhook_floods import QUEUE, flooded
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.memory_limit import limited_memory
from tests.support.servers.queuegate_server import RunningServer
from tests.support.servers.webhook import Webhook, running_webhook

SECONDS = 10.0
QUEUES = 40_000
"""Their policy has almost 1 MiB."""
CHILD = 32 << 20
"""Less than a child takes that parses the text of a flood, or the policy, in bytes."""
AT_ONCE = (
    "long headers and slow small bodies",
    "ConfigMaps of many queues",
    "large legal reviews",
    "objects of long texts",
)


@pytest.fixture
def webhook_with_policy(tmp_path: Path) -> Iterator[Webhook]:
    (tmp_path / "queues.yaml").write_text(policy_of(QUEUES))
    checks = {"mode": "deny", "schedulers": {"places": [{"label": QUEUE}]}}
    settings = {
        "policy": {"path": str(tmp_path / "queues.yaml")},
        "admission": {"queues": {**checks, "groups": "kubernetes"}},
    }
    file = tmp_path / "queuegate.yaml"
    file.write_text(json.dumps(settings))
    with running_webhook(tmp_path, "--config", str(file)) as webhook:
        yield webhook


@contextmanager
def reloading(policy: Path) -> Iterator[None]:
    """Replace a policy during the block, each time the last one may have been read."""
    ended = threading.Event()

    def change() -> None:
        for number in itertools.count(QUEUES + 1):
            replace(policy, policy_of(QUEUES) + f"          - name: q{number}\n")
            if ended.wait(1.0):
                return

    changing = threading.Thread(target=change)
    changing.start()
    try:
        yield
    finally:
        ended.set()
        changing.join()


class Memory:
    """The most memory that a server and its child process held, in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self.of_child = 0


@contextmanager
def watched(server: RunningServer) -> Iterator[Memory]:
    """Watch the memory of a server during the block."""
    found, ended = Memory(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):
                own, everything = server.memory(), server.memory_of_all()
                found.peak = max(found.peak, everything)
                found.of_child = max(found.of_child, everything - own)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        ended.set()
        watching.join()


def reloads(webhook: Webhook) -> float:
    return webhook.metric("queuegate_policy_reloads_total", 'result="success"')


@pytest.mark.timeout(900)
def test_all_at_once(webhook_with_policy: Webhook, tmp_path: Path, record: Record) -> None:
    webhook = webhook_with_policy
    with limited_memory(webhook.server.pid, MAX_MEMORY), watched(webhook.server) as memory:
        with ExitStack() as at_once:
            at_once.enter_context(reloading(tmp_path / "queues.yaml"))
            for name in AT_ONCE:
                at_once.enter_context(flooded(webhook, name))
            time.sleep(SECONDS)
        # The floods give a reload its turn, or end.
        eventually(lambda: reloads(webhook) > 1, True)
        seen = f"{memory.peak >> 20} MiB, of which a child {memory.of_child >> 20} MiB"
        record("all at once", seen)
        assert memory.peak < MAX_MEMORY, seen
        assert memory.of_child > CHILD, seen
