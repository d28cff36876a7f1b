"""Chains of a directory and YuniKorn's table: a real slapd, and the server itself."""

from pathlib import Path

import pytest

from queuegate import Client, GroupsUnavailable
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.ldap_entries import dn, group, person
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.slapd import SERVICE, Slapd

QUEUES = '[{name: root, queues: [{name: team, submitacl: " analytics,group1001"}]}]'
CHAINS = {
    "first": "{type: chain, resolvers: [corp, table]}",
    "union": "{type: chain, resolvers: [corp, table], mode: union}",
    "table-first": "{type: chain, resolvers: [table, corp]}",
}


@pytest.fixture
def config(tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path) -> Path:
    """Settings with a partition for each chain. testuser1 is also in the directory."""
    own_directory.add(person("testuser1") + group("more", dn("testuser1")))
    queues = tmp_path / "queues.yaml"
    queues.write_text(
        "partitions:\n" + "".join(f"  - {{name: {name}, queues: {QUEUES}}}\n" for name in CHAINS)
    )
    file = tmp_path / "queuegate.yaml"
    file.write_text(
        f"""\
policy: {{path: {queues}}}
resolvers:
  corp:
    type: ldap
    urls: ["{own_directory.tls_url}"]
    ca_file: {ca_file}
    bind_dn: {SERVICE}
    bind_password_file: {password_file}
    user_base: ou=people,dc=lab,dc=test
    group_base: ou=groups,dc=lab,dc=test
  table: {{type: test}}
"""
        + "".join(f"  {name}: {chain}\n" for name, chain in CHAINS.items())
        + "partitions:\n"
        + "".join(f"  {name}: {{resolver: {name}, cache: {{max_stale: 0}}}}\n" for name in CHAINS)
    )
    return file


def test_groups_and_decisions(config: Path, own_directory: Slapd) -> None:
    with (
        running_server("--config", str(config), *LISTEN) as server,
        Client(server.address, timeout=60) as client,
    ):
        for user, partition, groups in (
            *(("bob", name, ("analytics",)) for name in CHAINS),
            ("testuser1", "first", ("more",)),
            ("testuser1", "union", ("more", "group1000", "group1001")),
            ("testuser1", "table-first", ("group1000", "group1001")),
            *(("testuser2", name, ("100", "group1001", "group1002")) for name in CHAINS),
        ):
            found = client.resolve(user, partition=partition)
            assert (found.groups, found.resolver) == (groups, partition), user
            allowed = bool({"analytics", "group1001"} & set(groups))
            assert client.check(user, "root.team", partition=partition).allowed is allowed
        for partition in CHAINS:
            unknown = client.resolve("nobody", partition=partition)
            assert unknown.outcome.name == "NOT_FOUND"
            assert "corp: " in unknown.detail
            assert "table: " in unknown.detail
            denied = client.check("nobody", "root.team", partition=partition)
            assert (denied.allowed, denied.reason.name) == (False, "UNKNOWN_USER")
            # The table knows this user and cannot list the groups.
            with pytest.raises(GroupsUnavailable, match=f"resolver '{partition}' is unavailable"):
                client.check("testuser5", "root.team", partition=partition)
        # Lookups are counted by resolver: bob's three; testuser1's and testuser2's.
        ops = ops_address(server)
        lookups = "queuegate_resolver_lookups_total"
        assert value(ops, lookups, "corp", "settings", "found") == 5
        assert value(ops, lookups, "table", "settings", "found") == 5
        for name in CHAINS:
            assert value(ops, lookups, name) == 0
        own_directory.kill()
        for user, partition in (
            # One resolver knows the user, but the directory would be asked before or as well.
            ("testuser3", "first"),
            ("testuser3", "union"),
            ("carol", "table-first"),
        ):
            failed = client.resolve(user, partition=partition)
            assert failed.outcome.name == "UNAVAILABLE"
            assert failed.detail.startswith("resolver 'corp': ")
            with pytest.raises(GroupsUnavailable):
                client.check(user, "root.team", partition=partition)
        known = client.resolve("testuser3", partition="table-first")
        assert known.groups[0] == "group1001"
