"""A Redis that is restored from a backup brings back no groups that were invalidated since."""

import time
from pathlib import Path

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


def invalidates(fleet: Fleet) -> bool:
    """Return whether the whole fleet has forgotten all users."""
    try:
        fleet.clients["a"].invalidate(wait=True)
    except queuegate.ServerUnavailable:
        return False
    return True
