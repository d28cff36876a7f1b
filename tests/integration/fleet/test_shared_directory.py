"""Three replicas, one Redis and one slapd: how often the directory is asked."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.servers import ldap_entries as entries
from tests.support.servers.admin_port import LISTEN, ops_address, samples
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.servers.redis_server import running_redis
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, Slapd, running_slapd
from tests.support.servers.two_partitions import POLICY

USERS = 10_000
MAX_SEARCHES = 10_100
NAMES = tuple(f"u{number}" for number in range(USERS))
CHECKS = [queuegate.Check(user, "root.work") for user in NAMES]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """Every second user is in `staff`."""
    people = "".join(map(entries.person, NAMES))
    staff = entries.group("staff", *(f"uid={user},{PEOPLE}" for user in NAMES[::2]))
    folder = tmp_path_factory.mktemp("slapd")
    load = entries.base() + people + staff
    with running_slapd(folder, trustme.CA(), "", load=load, tls=False) as slapd:
        yield slapd


class Replica:
    """A server of the fleet, and what it counted."""

    def __init__(self, server_address: str, ops: str) -> None:
        self.client = queuegate.Client(server_address, timeout=30)
        self._ops = ops

    def count(self, name: str, *labels: str) -> int:
        return int(
            sum(
                value
                for (metric, values), value in samples(self._ops).items()
                if metric == name and set(labels) <= values
            )
        )

    @property
    def searches(self) -> int:
        return self.count("queuegate_resolver_lookups_total")

    def reads(self, result: str) -> int:
        return self.count("queuegate_fleet_group_reads_total", result)

    def writes(self, result: str) -> int:
        return self.count("queuegate_fleet_group_writes_total", result)


@pytest.fixture
def fleet(directory: Slapd, tmp_path: Path) -> Iterator[list[Replica]]:
    secret = tmp_path / "secret"
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    policy = tmp_path / "queues.yaml"
    policy.write_text(POLICY)
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(tmp_path / "redis"))
        settings: dict[str, Any] = {
            "policy": {"path": str(policy)},
            "resolvers": {
                "corp": {
                    "type": "ldap",
                    "urls": [directory.url],
                    "start_tls": False,
                    "allow_plaintext_bind": True,
                    "bind_dn": SERVICE,
                    "bind_password_file": str(directory.folder / "password"),
                    "user_base": PEOPLE,
                    "group_base": GROUPS,
                    # The machine may be busy.
                    "lookup_timeout": "60s",
                }
            },
            "partitions": {
                "default": {"resolver": "corp", "cache": {"positive_ttl": "1h"}},
                "other": {"resolver": "corp"},
            },
            "fleet": {"url": redis.url, "secret_file": str(secret), "read_timeout": "10s"},
        }
        replicas: list[Replica] = []
        for name in ("a", "b", "c"):
            folder = tmp_path / name
            folder.mkdir()
            config = settings_file(
                folder, settings | {"fleet": settings["fleet"] | {"replica": name}}
            )
            server = stack.enter_context(running_server("--config", config, *ADMIN, *LISTEN))
            server.wait_for_log("following the fleet")
            replicas.append(Replica(server.address, ops_address(server)))
            stack.enter_context(replicas[-1].client)
            eventually(lambda: replicas[-1].count("queuegate_fleet_groups_available"), 1)
        yield replicas


def test_the_directory_is_asked_once_for_each_user(fleet: list[Replica]) -> None:
    for replica in fleet:
        decisions = replica.client.check_many(CHECKS, timeout=150)
        assert [getattr(each, "allowed", each) for each in decisions] == [True, False] * (
            USERS // 2
        )
        eventually(lambda: fleet[0].writes("written") >= USERS - 100, True)
    # A machine that stalls for longer than a lease lets replicas work alone for a moment.
    alone = sum(replica.reads("unavailable") for replica in fleet)
    assert sum(replica.searches for replica in fleet) - alone <= MAX_SEARCHES
    assert fleet[1].reads("hit") + fleet[2].reads("hit") >= 2 * USERS - 100 - alone
    for reason in ("mac", "format", "settings"):
        refused = [
            replica.count("queuegate_fleet_groups_refused_total", reason) for replica in fleet
        ]
        assert refused == [0, 0, 0]
