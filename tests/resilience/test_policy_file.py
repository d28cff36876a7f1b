"""Faults of a policy file while the server is asked."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import queuegate
from tests.resilience.invariants import Record, allowed, policy, under_load
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import RunningServer

GARBAGE = bytes(range(256)) * 64


def expect_last_good_policy(
    server: RunningServer, path: Path, record: Record, make: Callable[[], object]
) -> None:
    """Make the fault; everything is answered by the last good policy, until a good one is
    there again.
    """
    text = path.read_text()
    with (
        under_load(server, record) as fault,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        revision = client.get_policy().revision
        make()
        eventually(lambda: client.get_policy().reload_failed_at is not None, expected=True)
        assert client.get_policy().revision == revision
        with fault.expected_to_serve():
            path.write_text(text + "# mended\n")
            eventually(lambda: client.get_policy().reload_failed_at, None)
        assert client.get_policy().revision == revision + 1
    assert set(fault.outcomes) == {"answered"}


def test_deleted(server: RunningServer, policy_file: Path, record: Record) -> None:
    expect_last_good_policy(server, policy_file, record, policy_file.unlink)


def test_truncated(server: RunningServer, policy_file: Path, record: Record) -> None:
    """Cut in the middle of a line, and then to nothing."""

    def truncate() -> None:
        with policy_file.open("r+") as file:
            file.truncate(policy_file.stat().st_size - 30)

    expect_last_good_policy(server, policy_file, record, truncate)


def test_emptied(server: RunningServer, policy_file: Path, record: Record) -> None:
    expect_last_good_policy(server, policy_file, record, lambda: policy_file.write_text(""))


def test_garbage(server: RunningServer, policy_file: Path, record: Record) -> None:
    expect_last_good_policy(server, policy_file, record, lambda: policy_file.write_bytes(GARBAGE))


def test_swapped_a_thousand_times(server: RunningServer, policy_file: Path, record: Record) -> None:
    """The load asks for two things of which exactly one is allowed by either policy."""
    new = policy_file.with_name("new")
    with (
        under_load(server, record) as fault,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        for number in range(1, 1_001):
            turn = ("alice", "bob")[number % 2]
            new.write_text(policy(turn))
            new.replace(policy_file)
            if number % 51 == 0:
                # Otherwise many of them would be read as one.
                eventually(partial(allowed, client, turn), expected=True)
        with fault.expected_to_serve():
            eventually(partial(allowed, client, "alice"), expected=True)
        record("revisions served", client.get_policy().revision)
    assert set(fault.outcomes) == {"answered"}
