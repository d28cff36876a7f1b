"""Somebody who can write to Redis, without the fleet's secret: the fleet mends itself."""

from collections.abc import Iterator

import pytest

from tests.support.eventually import eventually
from tests.support.hostile_redis import HOSTILE, LARGE, PREFIX, STATE
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

NAMES = ("a", "b")
MAX_MEMORY = 512 << 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with running_fleet(folder, *NAMES, arguments=LISTEN, read_timeout="10s") as running:
        yield running


@pytest.fixture
def fleet(shared: Fleet) -> Fleet:
    shared.directory.reset({"sam": dict(STAFF)})
    eventually(lambda: shared.confirms("a"), True)
    return shared


def fields(fleet: Fleet) -> int:
    return int(fleet.redis.command("HLEN", f"{PREFIX}replicas").strip(b":\r\n"))


@pytest.mark.parametrize("content", HOSTILE)
def test_the_fleet_mends_itself(fleet: Fleet, content: str) -> None:
    HOSTILE[content](fleet.redis)
    fleet.directory.answer({"sam": dict(OTHERS)})
    eventually(lambda: fleet.confirms("b"), True)
    assert [fleet.may(name) for name in NAMES] == [False, False]
    eventually(lambda: fields(fleet), len(NAMES), 300)
    for name in NAMES:
        assert fleet.servers[name].peak_memory() < MAX_MEMORY


def test_very_many_statuses_take_no_replica_out_of_the_fleet(fleet: Fleet) -> None:
    """The entries of the replicas are read first, and no cache is dropped."""
    history = fleet.redis.get(f"{PREFIX}epoch")
    before = [
        value(ops_address(fleet.servers[name]), "queuegate_fleet_gaps_total") for name in NAMES
    ]
    HOSTILE["many_replicas"](fleet.redis)
    eventually(lambda: fields(fleet), len(NAMES), 300)
    assert fleet.redis.get(f"{PREFIX}epoch") == history
    for name, gaps in zip(NAMES, before, strict=True):
        assert value(ops_address(fleet.servers[name]), "queuegate_fleet_gaps_total") == gaps
        assert "with a different secret" in "; ".join(fleet.clients[name].get_fleet().problems)


@pytest.mark.parametrize("kind", ["large", "another type", "kept", "for a very long time"])
def test_keys_of_users_that_somebody_else_wrote(fleet: Fleet, kind: str) -> None:
    """The directory is asked, at once, and the value is replaced."""
    fleet.directory.answer({"sam": dict(OTHERS)})
    key = f"{PREFIX}user:default:sam"
    head = (fleet.redis.get(f"{PREFIX}seq") or b"").decode()
    lookup = f"{PREFIX}lookup:{head}:default:sam"
    match kind:
        case "large":
            fleet.redis.command("SET", key, LARGE)
        case "another type":
            fleet.redis.write([("DEL", key), ("HSET", key, "a", "b"), ("HSET", lookup, "a", "b")])
        case "kept":
            fleet.redis.command("SET", lookup, "")
        case _:
            fleet.redis.command("SET", lookup, "", "PX", str(10**15))
    assert not fleet.may("a")
    eventually(lambda: (fleet.redis.get(key) or b"").find(b'"others"') > 0, True)
    assert not fleet.may("b")
    assert fleet.directory.asked("sam") == 1
    if kind != "large":
        assert int(fleet.redis.command("PTTL", lookup).strip(b":\r\n")) <= 100


def test_keys_that_expire_hide_nobody(fleet: Fleet) -> None:
    for name in STATE[:3]:
        fleet.redis.command("PEXPIRE", f"{PREFIX}{name}", "1")
    eventually(lambda: fleet.confirms("a"), True)
    assert all(len(fleet.clients[name].get_fleet().replicas) == len(NAMES) for name in NAMES)
