"""The process has as many files and connections open as it may."""

import resource
import signal
from contextlib import ExitStack
from pathlib import Path

import queuegate
from tests.resilience import http2
from tests.resilience.invariants import Record, count_descriptors, policy, under_load
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import RunningServer

ROOM = 30
MORE = 50


def test_descriptor_limit(server: RunningServer, policy_file: Path, record: Record) -> None:
    """Connected callers are answered, a reload fails and keeps the policy, and newcomers
    are served as soon as there is room.
    """
    with (
        under_load(server, record) as fault,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        revision = client.get_policy().revision
        before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        most = count_descriptors(server.pid) + ROOM
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, before[1]))
        with ExitStack() as held:
            for _ in range(ROOM + MORE):
                held.enter_context(http2.connected(server.address, http2.BEGIN))
            eventually(lambda: count_descriptors(server.pid) >= most - 1, expected=True)
            policy_file.write_text(policy("bob"))
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: client.get_policy().reload_failed_at is not None, expected=True)
            assert client.check("alice", "root.turn").policy_revision == revision
        with fault.expected_to_serve():
            pass
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: client.check("bob", "root.turn").allowed, expected=True)
    assert set(fault.outcomes) == {"answered"}
