"""The audit log of several workers: a file for each, which outlives the worker."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.support.servers.queuegate_server import RunningServer
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


def records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in folder.glob("audit.log*")
    }


def deny(server: RunningServer, users: list[str]) -> None:
    with channels(server.address) as opened:
        for number, user in enumerate(users):
            assert not check(opened[number % len(opened)], user).allowed


def test_a_worker_continues_the_file_of_its_predecessor(tmp_path: Path) -> None:
    arguments = ("--policy", str(write_policy(tmp_path)))
    names = {f"audit.log.worker-{index}" for index in range(WORKERS)}
    first, second = ([f"{part}{n}" for n in range(32)] for part in ("before", "after"))
    with several_workers(*arguments, "--set", f"audit.path={tmp_path / 'audit.log'}") as server:
        deny(server, first)
        written = records(tmp_path)
        assert set(written) == names
        assert all(written.values())
        killed = pids(server)[0]
        send(killed, signal.SIGKILL)
        wait_for_replacement(server, 0, killed)
        deny(server, second)
        found = records(tmp_path)
        assert set(found) == names
        for name in names:
            assert found[name][: len(written[name])] == written[name]
            assert len(found[name]) > len(written[name])
        users = [record["user"] for each in found.values() for record in each]
        assert sorted(users) == sorted([*first, *second])


def test_standard_output_is_shared(tmp_path: Path) -> None:
    arguments = ("--policy", str(write_policy(tmp_path)), "--set", "audit.path=-")
    users = [f"user{n}" for n in range(32)]
    with several_workers(*arguments) as server:
        deny(server, users)
        assert server.process.stdout
        lines = [json.loads(server.process.stdout.readline()) for _ in users]
    assert [line["user"] for line in lines] == users
