"""The time of day jumps while the server runs."""

import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

import queuegate
from tests.resilience.invariants import Record, allowed, policy, under_load
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.queuegate_server import running_server

DAY = 86_400
SOURCE = Path(__file__).with_name("wall_clock.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile what shifts the time of day of a process."""
    path = tmp_path_factory.mktemp("library") / "wall_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", path, SOURCE], check=True)
    return path


def test_clock_stepped(tmp_path: Path, policy_file: Path, library: Path, record: Record) -> None:
    """Forward and back: nothing expires by it, no pause gets longer, only what people read
    shows it.
    """
    shift = tmp_path / "shift"
    shift.write_text("0")
    directory = ScriptedDirectory(tmp_path)
    directory.answer({"carl": {"groups": ["analysts"]}, "fay": {"failed": "down"}})
    settings = {
        "policy": {"path": str(policy_file)},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp", "cache": {"failure_ttl": "30s"}}},
    }
    environment = {"LD_PRELOAD": str(library), "QG_WALL_CLOCK": str(shift)}
    with (
        running_server(
            "--config",
            settings_file(tmp_path, settings),
            environment=directory.environment | environment,
        ) as server,
        under_load(server, record) as fault,
        queuegate.Client(server.address, timeout=60, retry=queuegate.Retry(attempts=1)) as client,
    ):
        assert client.check("carl", "root.work")
        for turn, step in (("bob", 2 * DAY), ("alice", -2 * DAY), ("bob", 0)):
            shift.write_text(f"{step:<12}")
            with fault.expected_to_serve():
                pass
            assert client.check("carl", "root.work").allowed
            with pytest.raises(queuegate.GroupsUnavailable) as caught:
                client.check("fay", "root.work")
            assert caught.value.retry_after is not None
            assert 0 < caught.value.retry_after <= 30
            # A reload works, and its time is that of the clock on the wall.
            policy_file.write_text(policy(turn))
            eventually(partial(allowed, client, turn), expected=True)
            loaded_at = client.get_policy().loaded_at
            assert loaded_at is not None
            assert abs(loaded_at.timestamp() - (time.time() + step)) < 3600
    assert directory.asked("carl") == 1
    assert set(fault.outcomes) == {"answered"}
