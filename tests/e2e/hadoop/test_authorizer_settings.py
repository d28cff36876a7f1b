"""What an administrator configures: the authorizer connects, and logs decisions, or says what
is missing.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hadoop.test_authorizer import may_submit
from tests.support.servers.audited_server import audit_records
from tests.support.servers.guarded_server import guarded_server
from tests.support.servers.resourcemanager.process import BUILD_SECONDS, RELEASES
from tests.support.servers.yarn_cluster import Cluster

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


FAULTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("no fallback", {}, {"fallback": ""}, "queuegate.fallback must be set"),
    ("an unknown key", {}, {"adress": "x"}, "queuegate.adress is not a key"),
    ("no role", {"callers": {"roles": ["check"]}}, {}, "sync"),
    ("no assertions", {"callers": {"assert_groups": False}}, {}, "assert_groups: true"),
    (
        "no trust in groups",
        {"partition": {"trust_provided_groups": False}},
        {},
        "trust_provided_groups",
    ),
    ("no such token file", {}, {"token_file": "/missing"}, "queuegate.token-file names /missing"),
    ("no such CA file", {}, {"tls_ca_file": "/missing"}, "queuegate.tls.ca-file: cannot read"),
    ("not an address", {}, {"address": "queuegate"}, 'queuegate.address "queuegate": not a host'),
    (
        "another partition",
        {},
        {"partition": "other"},
        "correct queuegate.partition (the server has: default)",
    ),
    ("an audit log", {"audit": {"path": "-"}}, {}, "sync.local_decisions: allow"),
]


@pytest.mark.parametrize(
    ("server", "keys", "message"),
    [fault[1:] for fault in FAULTS],
    ids=[fault[0] for fault in FAULTS],
)
def test_what_is_missing_is_named_at_the_start(
    server: dict[str, Any], keys: dict[str, Any], message: str, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path, "capacity")
    with cluster.queuegate(**server), cluster.yarn(RELEASES[1], **keys) as manager:
        assert message in manager.started["error"]


@pytest.mark.parametrize("release", RELEASES)
def test_tls_and_a_token_and_an_audit_log(release: str, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "capacity")
    folder = tmp_path / "guarded"
    folder.mkdir()
    arguments = ["--policy", str(cluster.policy)]
    for setting in (
        "partitions.default.semantics=hadoop",
        "callers.tokens.shim.roles=sync",
        "sync.local_decisions=allow",
        f"audit.path={tmp_path / 'audit.log'}",
        "audit.records=all",
    ):
        arguments += ["--set", setting]

    def told() -> set[tuple[str, str, str]]:
        """What the page's example writes."""
        lines = (manager.folder / "queuegate-decisions.log").read_text().splitlines()
        return {
            (record["user"], record["access"], record["decision"])
            for record in map(json.loads, lines)
            if record["queue"] == "root.a" and record["method"] == "CheckQueueAccess"
        }

    with guarded_server(folder, *arguments) as server:
        keys: dict[str, Any] = {
            "address": server.address,
            "token_file": str(server.token_file),
            "tls_ca_file": str(server.ca_file),
            "fallback": "deny",
        }
        server.token_file.chmod(0o644)
        with cluster.yarn(release, **keys) as manager:
            assert "which other users can read or write" in manager.started["error"]
        server.token_file.chmod(0o600)
        wrong = tmp_path / "wrong-token"
        wrong.write_text("x" * 43)
        wrong.chmod(0o600)
        with cluster.yarn(release, **{**keys, "token_file": str(wrong)}) as manager:
            assert "callers.token_file lists" in manager.started["error"]
        with cluster.yarn(release, **keys) as manager:
            assert "error" not in manager.started, manager.started
            assert may_submit(manager, "alice", "root.a")
            assert not may_submit(manager, "mallory", "root.a")
            expected = {("alice", "submit", "allowed")}
            expected |= {("mallory", access, "denied") for access in ("submit", "admin")}
            assert told() == expected
            assert audit_records(tmp_path) == []
