"""Faults of the file of tokens while the server is asked with one of them."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuegate
from tests.resilience.invariants import Record, under_load
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers.queuegate_server import RunningServer, running_server

RELOADED = "reloaded a changed file"
ASKS = "qg_" + "a" * 43
LEAVES = "qg_" + "l" * 43


def line(name: str, token: str) -> str:
    return f"{name}:{hashlib.sha256(token.encode()).hexdigest()}\n"


KEPT = line("asks", ASKS)
COMPLETE = line("leaves", LEAVES) + KEPT


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(COMPLETE)
    return file


@pytest.fixture
def server(
    tmp_path: Path, policy_file: Path, tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningServer]:
    """A server that is asked with a token, which counts even for callers on its machine."""
    (tmp_path / "asks").write_text(ASKS)
    (tmp_path / "leaves").write_text(LEAVES)
    monkeypatch.setenv("QUEUEGATE_TOKEN_FILE", str(tmp_path / "asks"))
    roles = {"roles": ["check"], "assert_groups": True}
    settings = {
        "listen": ["127.0.0.1:0"],
        "policy": {"path": str(policy_file)},
        "callers": {"token_file": str(tokens), "tokens": {"asks": roles, "leaves": roles}},
    }
    with running_server("--config", settings_file(tmp_path, settings), listen=()) as started:
        yield started


def is_refused(client: queuegate.Client) -> bool:
    try:
        client.check("alice", "root.open")
    except queuegate.NotPermitted:
        return True
    return False


def test_rewritten_in_place(server: RunningServer, tokens: Path, record: Record) -> None:
    """The last complete version counts: callers notice nothing."""
    with under_load(server, record) as fault:
        for _ in range(3):
            half = len(COMPLETE) // 2
            with tokens.open("w") as file:
                # The server reads the empty file, and then half of it.
                for part in ("", COMPLETE[:half]):
                    file.write(part)
                    file.flush()
                    time.sleep(0.7)
                loads = sum(entry["event"] == RELOADED for entry in server.logs)
                file.write(COMPLETE[half:])
            # The next round begins after the whole file counts, or both would share one grace.
            server.wait_for_log(RELOADED, count=loads + 1)
        with fault.expected_to_serve():
            pass
    assert set(fault.outcomes) == {"answered"}


def test_token_removed_from_a_broken_file(
    server: RunningServer, tokens: Path, tmp_path: Path, record: Record
) -> None:
    """The token is refused within five seconds, and others are not."""
    with (
        under_load(server, record) as fault,
        queuegate.Client(server.address, timeout=60, token_file=tmp_path / "leaves") as leaving,
    ):
        assert not is_refused(leaving)
        with fault.expected_to_serve():
            tokens.write_text(KEPT + "not a token\n")
            eventually(lambda: is_refused(leaving), expected=True)
        assert server.wait_for_log("cannot use the changed file")["file"] == str(tokens)
    assert set(fault.outcomes) == {"answered"}
