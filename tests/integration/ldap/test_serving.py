"""The server itself with a directory: from queuegate.yaml to an answer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from queuegate import Check, CheckFailure, Client, GroupsUnavailable
from tests.support.eventually import eventually
from tests.support.servers import ldap_entries as entries
from tests.support.servers.admin_port import get, get_json, ops_address
from tests.support.servers.ldap_entries import group_dn
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command
from tests.support.servers.slapd import PASSWORD, SERVICE, Slapd, running_slapd

POLICY = """\
partitions:
  - name: default
{resolver}    queues:
      - name: root
        queues:
          - {{name: team, submitacl: " analytics"}}
          - {{name: open, submitacl: "*"}}
"""


def policy(tmp_path: Path, resolver: str = "") -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(POLICY.format(resolver=resolver))
    return file


def settings(tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path) -> Path:
    file = tmp_path / "queuegate.yaml"
    file.write_text(
        f"""\
policy: {{path: {policy(tmp_path)}}}
resolvers:
  corp:
    type: ldap
    urls: ["{directory.tls_url}"]
    ca_file: {ca_file}
    bind_dn: {SERVICE}
    bind_password_file: {password_file}
    user_base: ou=people,dc=lab,dc=test
    group_base: ou=groups,dc=lab,dc=test
partitions:
  default: {{resolver: corp}}
"""
    )
    return file


def test_decisions_come_from_the_directory(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    config = settings(tmp_path, own_directory, ca_file, password_file)
    with running_server("--config", str(config)) as server:
        with Client(server.address, timeout=60) as client:
            assert client.check("bob", "root.team")
            assert not client.check("carol", "root.team")
            unknown = client.check("BOB", "root.team")
            assert (unknown.allowed, unknown.reason.name) == (False, "UNKNOWN_USER")
            own_directory.kill()
            # Who is known still is; who needs no groups is let in; others get no answer.
            assert client.check("bob", "root.team")
            assert client.check("dave", "root.open")
            assert client.resolve("dave").outcome.name == "UNAVAILABLE"
        logged = str(server.logs)
    assert PASSWORD not in logged


def test_a_change_in_the_directory_counts_at_once(
    tmp_path: Path, ca: trustme.CA, ca_file: Path, password_file: Path
) -> None:
    with running_slapd(
        tmp_path / "slapd",
        ca,
        entries.standard(),
        more_globals="moduleload syncprov",
        more_database=f'overlay syncprov\nlimits dn.exact="{SERVICE}" size=unlimited\n',
    ) as directory:
        config = settings(tmp_path, directory, ca_file, password_file)
        text = config.read_text().replace("ca_file", "changes: syncrepl\n    ca_file")
        config.write_text(f"{text}ops: {{listen: 127.0.0.1:0}}\nconsole: {{enabled: true}}\n")
        with (
            running_server("--config", str(config)) as server,
            Client(server.address, timeout=30) as client,
        ):
            eventually(lambda: state_of_changes(server), "following")
            assert client.check("bob", "root.team")
            assert not client.check("carol", "root.team")
            directory.modify(change_of_members("delete", "bob") + change_of_members("add", "carol"))
            eventually(lambda: bool(client.check("bob", "root.team")), expected=False)
            eventually(lambda: bool(client.check("carol", "root.team")), expected=True)
            _, metrics = get(ops_address(server), "/metrics")
            assert 'queuegate_resolver_changes_total{defined_in="settings",kind="users"' in metrics
            directory.kill()
            eventually(lambda: state_of_changes(server), "failed")
            _, page = get(ops_address(server), "/console/health")
            assert "does not follow changes in its source" in page
        assert "does not follow changes; cached groups expire as usual" in str(server.logs)


def state_of_changes(server: RunningServer) -> str:
    _, details = get_json(ops_address(server), "/readyz")
    return str(details["resolvers"]["changes"][0]["state"])


def change_of_members(verb: str, user: str) -> str:
    lines = (f"dn: {group_dn('analytics')}", "changetype: modify", f"{verb}: member")
    return "\n".join([*lines, f"member: {entries.dn(user)}", "", ""])


def test_callers_do_not_learn_where_the_directory_is(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    config = settings(tmp_path, own_directory, ca_file, password_file)
    own_directory.kill()
    expected = "groups are needed and resolver 'corp' is unavailable; see the server's log"
    with running_server("--config", str(config)) as server:
        command = (sys.executable, "-m", "queuegate", "--address", server.address)
        with Client(server.address, timeout=60) as client:
            for ask in (client.check, client.explain):
                with pytest.raises(GroupsUnavailable) as caught:
                    ask("bob", "root.team")
                assert caught.value.message == expected
                assert caught.value.retry_after is not None
                assert 0 < caught.value.retry_after <= 5
            for found in client.check_many([Check("bob", "root.team"), Check("al", "root.team")]):
                assert isinstance(found, CheckFailure)
                assert found.error.message == expected
            for output in ("text", "json"):
                done = subprocess.run(
                    [*command, "check", "bob", "root.team", "--output", output],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=60,
                )
                assert done.returncode == 3
                said = done.stdout + done.stderr
                assert re.search(re.escape(f"{expected}; try again in ") + r"[1-5] s\b", said), said
                assert "127.0.0.1" not in said
            # A caller who looks into groups does, as does the log, each host once.
            detail = client.resolve("bob").detail
        (logged,) = {log["event"] for log in server.logs if "look up 'bob'" in log["event"]}
    assert logged.endswith(f"'bob': {detail}")
    assert detail.startswith(f"no directory server answers: {own_directory.tls_url}: ")
    assert detail.count("127.0.0.1") <= 2
    assert detail.count(str(own_directory.tls_port)) == 1


def test_server_starts_while_the_directory_is_down(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    own_directory.freeze()
    config = settings(tmp_path, own_directory, ca_file, password_file)
    with (
        running_server("--config", str(config)) as server,
        Client(server.address, timeout=60) as client,
    ):
        assert client.check("dave", "root.open")
        # The server ends although the directory hangs.
        assert server.stop(10) == 0


def test_missing_settings_are_reported_for_a_policy_with_ldap(tmp_path: Path) -> None:
    asking = "    usergroupresolver: {type: ldap}\n"
    done = subprocess.run(
        server_command(
            "serve", "--listen", "127.0.0.1:0", "--policy", str(policy(tmp_path, asking))
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "secrets_dir /run/secrets/ldap" in done.stderr
    assert "partitions.default.resolver" in done.stderr
