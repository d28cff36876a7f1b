"""Unknown names, as many as a caller can make up, evict no user whose groups are known."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import queuegate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers import ldap_entries as entries
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, SERVICE, running_slapd
from tests.support.unknown_names import ask_about_nobody, served

KNOWN = [f"known-{number}" for number in range(200)]
QUEUE = "root.team"
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: team, submitacl: " analytics"}
"""
CACHE = {"max_entries": 1_000, "positive_ttl": "1s", "negative_ttl": "1h", "failure_ttl": "1s"}


@contextmanager
def serving(
    folder: Path, resolver: dict[str, Any], environment: dict[str, str] | None = None
) -> Iterator[queuegate.Client]:
    """Run a server with a cache of a thousand entries; yield a client that does not retry."""
    (folder / "queues.yaml").write_text(POLICY)
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": resolver},
        "partitions": {"default": {"resolver": "corp", "cache": CACHE}},
    }
    with (
        running_server(
            "--config", settings_file(folder, settings), environment=environment
        ) as server,
        queuegate.Client(server.address, timeout=60, retry=queuegate.Retry(attempts=1)) as client,
    ):
        yield client


def everyone_is_stale(client: queuegate.Client) -> bool:
    return all(client.resolve(user).stale for user in KNOWN)


def test_known_users_outlive_a_flood_and_then_the_directory(tmp_path: Path) -> None:
    ca = trustme.CA()
    people = "".join(map(entries.person, KNOWN))
    team = entries.group("analytics", *map(entries.dn, KNOWN))
    with running_slapd(tmp_path / "slapd", ca, "", load=entries.base() + people + team) as slapd:
        (tmp_path / "password").write_text(PASSWORD)
        resolver = {
            "type": "ldap",
            "urls": [slapd.tls_url],
            "ca_file": f"{slapd.folder}/ca.pem",
            "bind_dn": SERVICE,
            "bind_password_file": f"{tmp_path}/password",
            "user_base": PEOPLE,
            "group_base": GROUPS,
            "lookup_timeout": "60s",
            "operation_timeout": "60s",
        }
        with serving(tmp_path, resolver) as client:
            eventually(lambda: served(client, KNOWN, QUEUE), len(KNOWN))
            assert ask_about_nobody(client, 1_200, QUEUE) == 1_200
            slapd.kill()
            eventually(lambda: everyone_is_stale(client), expected=True)
            assert served(client, KNOWN, QUEUE) == len(KNOWN)
            # More names, of which nothing can be known now.
            assert ask_about_nobody(client, 1_200, QUEUE, first=1_200) == 0
            assert served(client, KNOWN, QUEUE) == len(KNOWN)
            assert everyone_is_stale(client)


@pytest.mark.parametrize("answer", [{"unknown": "nobody"}, {"failed": "down"}])
def test_known_users_outlive_a_flood_of_any_size(tmp_path: Path, answer: dict[str, str]) -> None:
    directory = ScriptedDirectory(tmp_path)
    directory.answer({user: {"groups": ["analytics"]} for user in KNOWN} | {"*": answer})
    with serving(tmp_path, directory.resolver(), directory.environment) as client:
        assert served(client, KNOWN, QUEUE) == len(KNOWN)
        ask_about_nobody(client, 50_000, QUEUE)
        directory.answer({user: {"failed": "down"} for user in [*KNOWN, "*"]})
        eventually(lambda: everyone_is_stale(client), expected=True)
        assert served(client, KNOWN, QUEUE) == len(KNOWN)
