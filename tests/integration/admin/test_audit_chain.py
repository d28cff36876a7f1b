"""The hash chain of a running server's audit log: rotation, restarts, kills, several workers."""

import json
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import queuegate
from queuegate_server.cli.main import command_group
from tests.support.eventually import eventually
from tests.support.servers.audited_server import DENIED, audited_server
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.workers import (
    WORKERS,
    channels,
    check,
    pids,
    send,
    several_workers,
    wait_for_replacement,
    write_policy,
)


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(command_group(), ["audit", "verify", *map(str, arguments)])


@contextmanager
def chained_server(log: Path, **audit: Any) -> Iterator[tuple[RunningServer, queuegate.Client]]:
    """A server with a folder of its own beside the log, so that it can be started again."""
    folder = Path(tempfile.mkdtemp(dir=log.parent))
    with audited_server(folder, str(log), chain=True, **audit) as server_and_client:
        yield server_and_client


def last_hash(log: Path) -> str:
    return str(json.loads(log.read_bytes().splitlines()[-1])["hash"])


def test_rotation_and_restarts_continue_the_chain(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    kept = []
    for _ in range(2):
        with chained_server(log, max_size="4KiB", keep=50) as (server, client):
            for number in range(20):
                assert not client.check(f"user-{number}", "root.team")
            kept.append(last_hash(log))
            [begin] = [line for line in server.logs if "hash chain" in line["event"]]
    assert len(list(tmp_path.glob("audit.log.*"))) > 3
    result = verify(log, *(part for each in kept for part in ("--expect", each)))
    assert result.exit_code == 0
    assert result.stdout == (
        f"{log}: records 1 to 40 are intact; the hash of the last one is {kept[1]}\n"
    )
    # The log of the process has what to expect, too.
    assert (begin["sequence"], begin["hash"]) == (20, kept[0])


def test_kills_under_load_break_no_chain(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    answered: list[str] = []
    for kill in range(3):
        with chained_server(log, records="all", max_size="256KiB", keep=1000) as (server, client):
            before = len(answered)

            def ask(worker: str, client: queuegate.Client = client) -> None:
                try:
                    for number in range(100_000):
                        users = [f"{worker}-{number}-{each}" for each in range(50)]
                        client.check_many([queuegate.Check(user, "root.open") for user in users])
                        answered.extend(users)
                except queuegate.QueuegateError:
                    pass

            workers = [threading.Thread(target=ask, args=(f"{kill}-{n}",)) for n in range(3)]
            for worker in workers:
                worker.start()
            eventually(lambda: len(answered) > before + 1_000, expected=True)  # noqa: B023
            server.process.send_signal(signal.SIGKILL)
            for worker in workers:
                worker.join()
        # At most the beginning of a record is at the end, and does not count.
        assert verify(log).exit_code == 0
    with log.open("ab") as torn:
        torn.write(b'{"time":"2026-')
    assert "ends in an incomplete record" in verify(log).stderr
    with chained_server(log) as (_, client):
        assert not client.check(*DENIED)
    result = verify(log)
    assert (result.stderr, result.exit_code) == ("", 0)
    assert f"{log}: records 1 to " in result.stdout
    recorded = b"".join(each.read_bytes() for each in tmp_path.glob("audit.log*"))
    users = {json.loads(line)["user"] for line in recorded.splitlines()}
    assert set(answered) <= users


def test_a_kill_between_the_steps_of_a_rotation_breaks_no_chain(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    for records in (1, 2):
        with chained_server(log) as (_, client):
            assert not client.check(*DENIED)
        # The file has its new name, and the next one does not exist yet.
        with suppress(FileNotFoundError):
            (tmp_path / "audit.log.1").rename(tmp_path / "audit.log.2")
        log.rename(tmp_path / "audit.log.1")
        result = verify(log)
        assert (result.stderr, result.exit_code) == ("", 0)
        assert f"records 1 to {records} are intact" in result.stdout


def test_each_worker_has_a_chain_which_its_successor_continues(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    logs = [f"{log}.worker-{index}" for index in range(WORKERS)]
    settings = ("--set", f"audit.path={log}", "--set", "audit.chain=true")
    with several_workers("--policy", str(write_policy(tmp_path)), *settings) as server:
        for kill in (True, False):
            with channels(server.address) as opened:
                for number in range(32):
                    assert not check(opened[number % len(opened)], f"user{number}").allowed
            if kill:
                expected = last_hash(Path(logs[0]))
                killed = pids(server)[0]
                send(killed, signal.SIGKILL)
                wait_for_replacement(server, 0, killed)
        result = verify(*logs, "--expect", expected)
        assert result.exit_code == 0
        assert result.stdout.count(": records 1 to ") == WORKERS


def test_a_log_that_ends_in_no_chain_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_text('{"time":"2026-11-21T00:00:00Z","user":"alice"}\n')
    settings = f"audit.path={tmp_path / 'audit.log'}"
    reason = "audit.log: its last line is not an unchanged record of a hash chain: keep the file"
    with (
        pytest.raises(AssertionError, match=reason),
        running_server("--set", settings, "--set", "audit.chain=true"),
    ):
        pass
