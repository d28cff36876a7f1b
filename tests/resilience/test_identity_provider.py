"""An identity provider sends without an end."""

import itertools
from functools import partial
from pathlib import Path

import pytest

import queuegate
from tests.resilience.invariants import Facts, Record, under_load
from tests.support.eventually import eventually
from tests.support.fakes.keycloak import API, CLIENT, SECRET, FakeRealm
from tests.support.fakes.rest_api import Reply, Request, running_api, secret_file
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import running_server

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: team, submitacl: " /analytics"}
          - {name: open, submitacl: "*"}
          - {name: turn, submitacl: alice}
"""
FACTS: Facts = (
    ("bob", [], "root.team", True),
    ("carol", [], "root.team", False),
    ("dave", [], "root.open", True),
    ("mallory", ["analysts"], "root.team", False),
)
BLOCK = b"HTTP/1.1 100 Continue\r\n\r\n" * 2_600
NEVER_PAUSED = with_constants.environment(with_constants.NEVER_PAUSED)


def endless(request: Request) -> Reply | None:
    return Reply(raw=itertools.repeat(BLOCK)) if request.path.startswith(API) else None


def is_known(client: queuegate.Client, user: str) -> bool:
    return bool(client.resolve(user))


def test_answers_without_an_end(tmp_path: Path, record: Record) -> None:
    """Known users are decided by their last groups, new ones get an error in time."""
    realm = FakeRealm()
    realm.join("bob", ("analytics",))
    realm.join("carol", ("sales",))
    (tmp_path / "queues.yaml").write_text(POLICY)
    with running_api(realm.answer) as provider:
        config = tmp_path / "queuegate.yaml"
        config.write_text(
            f"""\
policy: {{path: {tmp_path}/queues.yaml}}
resolvers:
  corp:
    type: keycloak
    url: {provider.url}
    realm: corp
    client_id: {CLIENT}
    client_secret_file: {secret_file(tmp_path, SECRET)}
    allow_plaintext: true
partitions:
  default:
    resolver: corp
    acl_names: any
    cache: {{positive_ttl: 500ms, failure_ttl: 1ms}}
"""
        )
        with running_server("--config", str(config), environment=NEVER_PAUSED) as server:
            with queuegate.Client(server.address, timeout=60) as client:
                for user in ("bob", "carol"):
                    eventually(partial(is_known, client, user), expected=True)
            with under_load(server, record, facts=FACTS) as fault:
                no_retry = queuegate.Retry(attempts=1)
                with queuegate.Client(server.address, timeout=60, retry=no_retry) as client:
                    provider.fault = endless
                    eventually(lambda: client.resolve("bob").stale, expected=True)
                    for number in range(50):
                        with pytest.raises(queuegate.GroupsUnavailable):
                            client.check(f"new-{number}", "root.team")
                    with fault.expected_to_serve():
                        provider.fault = lambda _: None
                        eventually(lambda: client.resolve("bob").stale, expected=False)
            assert set(fault.outcomes) == {"answered"}
