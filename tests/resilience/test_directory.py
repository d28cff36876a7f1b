"""The directory of users stops in the middle of its work."""

from functools import partial
from pathlib import Path

import pytest
import trustme

import queuegate
from tests.resilience.invariants import Facts, Record, under_load
from tests.support.eventually import eventually
from tests.support.servers import ldap_entries as entries
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.slapd import PASSWORD, SERVICE, running_slapd

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: team, submitacl: " analytics"}
          - {name: open, submitacl: "*"}
          - {name: turn, submitacl: alice}
"""
FACTS: Facts = (
    ("bob", [], "root.team", True),
    ("carol", [], "root.team", False),
    ("dave", [], "root.open", True),
    ("mallory", ["analysts"], "root.team", False),
)


def is_known(client: queuegate.Client, user: str) -> bool:
    return bool(client.resolve(user))


def test_sigstop_of_the_directory(tmp_path: Path, record: Record) -> None:
    """Known users are decided by their last groups, new ones get an error in time."""
    ca = trustme.CA()
    with running_slapd(tmp_path / "slapd", ca, entries.standard()) as directory:
        (tmp_path / "password").write_text(PASSWORD)
        (tmp_path / "queues.yaml").write_text(POLICY)
        config = tmp_path / "queuegate.yaml"
        config.write_text(
            f"""\
policy: {{path: {tmp_path}/queues.yaml}}
resolvers:
  corp:
    type: ldap
    urls: ["{directory.tls_url}"]
    ca_file: {directory.folder}/ca.pem
    bind_dn: {SERVICE}
    bind_password_file: {tmp_path}/password
    user_base: ou=people,dc=lab,dc=test
    group_base: ou=groups,dc=lab,dc=test
    operation_timeout: 500ms
    connect_timeout: 500ms
    lookup_timeout: 1s
partitions:
  default: {{resolver: corp, cache: {{positive_ttl: 500ms, failure_ttl: 200ms}}}}
"""
        )
        with running_server("--config", str(config)) as server:
            with queuegate.Client(server.address, timeout=60) as client:
                for user in ("bob", "carol"):
                    eventually(partial(is_known, client, user), expected=True)
            with under_load(server, record, facts=FACTS) as fault:
                no_retry = queuegate.Retry(attempts=1)
                with queuegate.Client(server.address, timeout=60, retry=no_retry) as client:
                    directory.freeze()
                    eventually(lambda: client.resolve("bob").stale, expected=True)
                    for number in range(5):
                        with pytest.raises(queuegate.GroupsUnavailable):
                            client.check(f"new-{number}", "root.team")
                    with fault.expected_to_serve():
                        directory.thaw()
                        eventually(lambda: client.resolve("bob").stale, expected=False)
            assert set(fault.outcomes) == {"answered"}
