"""A Redis that is restored from a backup brings back no groups that were invalidated since."""

import time
from pathlib import Path

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

REPLICAS = ("a", "b")
USERS = [f"user{number}" for number in range(50)]


def allowed_users(fleet: Fleet) -> list[str]:
    """Ask all replicas about all users; return those that may use the queue of `staff`."""
    return [user for user in USERS for replica in REPLICAS if fleet.may(replica, user)]


def test_users_who_were_invalidated_keep_their_new_groups(tmp_path: Path) -> None:
    with running_fleet(tmp_path, *REPLICAS) as fleet:
        fleet.directory.reset({user: dict(STAFF) for user in USERS})
        assert len(allowed_users(fleet)) == 2 * len(USERS)
        assert fleet.redis.command("SAVE") == b"+OK\r\n"
        fleet.redis.command("FLUSHALL")
        fleet.directory.answer({user: dict(OTHERS) for user in USERS})
        eventually(lambda: invalidates(fleet), True)
        assert allowed_users(fleet) == []
        fleet.redis.kill()
        fleet.redis.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert allowed_users(fleet) == []
        fleet.until_agreed()
        assert allowed_users(fleet) == []


@pytest.mark.parametrize("way", ["stop", "kill"])
@pytest.mark.parametrize("empties", [False, True], ids=["", "another history"])
def test_a_backup_that_is_restored_while_no_replica_runs(
    tmp_path: Path, way: str, *, empties: bool
) -> None:
    """No replica remembers what the backup lacks."""
    with running_fleet(tmp_path, *REPLICAS) as fleet:
        fleet.directory.reset({user: dict(STAFF) for user in USERS})
        assert len(allowed_users(fleet)) == 2 * len(USERS)
        key = f"{{queuegate}}:user:default:{USERS[-1]}"
        eventually(lambda: fleet.redis.get(key) is not None, True)
        assert fleet.redis.command("SAVE") == b"+OK\r\n"
        if empties:
            fleet.redis.command("FLUSHALL")
        fleet.directory.answer({user: dict(OTHERS) for user in USERS})
        eventually(lambda: invalidates(fleet), True)
        for name in REPLICAS:
            if way == "kill":
                fleet.servers[name].process.kill()
            else:
                fleet.servers[name].stop()
        fleet.redis.kill()
        fleet.redis.start()
        assert fleet.redis.get(key) is not None, "the backup has the old groups"
        fleet.start("c")
        assert [user for user in USERS if fleet.may("c", user)] == []
        fleet.start("d")
        assert [user for user in USERS if fleet.may("d", user)] == []


def test_a_replica_that_joins_others_uses_what_they_share(tmp_path: Path) -> None:
    with running_fleet(tmp_path, "a", read_timeout="10s") as fleet:
        fleet.directory.reset({"sam": dict(STAFF)})
        assert fleet.may("a")
        eventually(lambda: fleet.redis.get("{queuegate}:user:default:sam") is not None, True)
        history = fleet.redis.get("{queuegate}:epoch")
        fleet.start("b", read_timeout="10s")
        assert fleet.may("b")
        assert fleet.directory.asked("sam") == 1
        assert fleet.redis.get("{queuegate}:epoch") == history


def invalidates(fleet: Fleet) -> bool:
    """Return whether the whole fleet has forgotten all users."""
    try:
        fleet.clients["a"].invalidate(wait=True)
    except queuegate.ServerUnavailable:
        return False
    return True
