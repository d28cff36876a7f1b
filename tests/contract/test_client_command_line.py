"""`queuegate` against a server: its output and exit statuses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from queuegate.cli import main
from queuegate.v1 import access_pb2, policy_pb2
from tests.support.fakes.scripted_server import Script, ScriptedServer

QUEUES = ["root", "root.a", "root.b\x1b"]
Capture = pytest.CaptureFixture[str]
PATIENT = ("--timeout", "60")
"""Where a busy machine must not decide the outcome."""


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedServer]:
    with ScriptedServer(queues=QUEUES, health_of={"": 1, "down": 2}) as it:
        yield it


@pytest.fixture
def server(shared: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", shared.address)
    shared.script.reset()
    return shared


STATUS_AND_TEXT: list[tuple[str, int, str]] = [
    (
        "check alice root.a",
        0,
        "allowed: alice may submit to root.a: an ACL of root.a lists the user alice",
    ),
    (
        "check denied root.a --access admin",
        1,
        "denied: denied may not administer root.a: no ACL from the queue up to the root lists",
    ),
    ("explain alice root.a", 0, "└─ submit ACL 'a,b c.d': no match (never match: c.d)"),
    ("explain denied root.a", 1, "groups: g1, g2 (cached; resolver corp)"),
    ("queues alice", 0, "root\nroot.a\nroot.b\\x1b"),
    (
        "who-can root.a --access admin --all-pages",
        0,
        "of root.a (not confirmed: the directory is down)\ncarol    group staff\\x1b, through devs",
    ),
    ("tree", 0, "root"),
    ("resolve alice", 0, "alice: g1, g2"),
    ("resolve alice --bypass-cache", 0, "resolver corp, just resolved"),
    ("policy", 0, "checksum    ABC"),
    ("reload", 0, "serving revision 8"),
    (
        "fleet",
        0,
        "a (asked)  following\n  server, queuegate 1.0, 2 gates, policy C0FFEE revision 7",
    ),
    ("fleet", 0, "w  following\n  webhook, queuegate 1.0, policy C0FFEE revision 7"),
    ("fleet", 0, "  kueue\\x1b[2J (warn): 4 allowed, 0 denied, 3 warned, 1 failed"),
    (
        "fleet",
        0,
        "gate rm\\x1b[2J\n  caller token:rm, yarn/1, may use its last state for 1.5 s, 1 decision",
    ),
    (
        "fleet",
        0,
        " 1 decision, 0 stale, 2 fallbacks\ngate old (replica a)\n  caller loopback",
    ),
    ("fleet", 0, "  kai: 0 allowed, 2 denied, 0 warned, 0 failed"),
    ("invalidate alice bob", 0, "dropped 2 cached answers"),
    ("invalidate --all", 0, "dropped 1000 cached answers"),
    ("invalidate alice", 0, "dropped 1 cached answer\n"),
    ("health", 0, "serving"),
    ("health --service down", 1, "not serving"),
]


@pytest.mark.parametrize(("line", "status", "text"), STATUS_AND_TEXT)
def test_answers(
    server: ScriptedServer, capsys: Capture, line: str, status: int, text: str
) -> None:
    assert main([*PATIENT, *line.split()]) == status
    output, errors = capsys.readouterr()
    assert text in output
    assert "\x1b" not in output
    assert errors == ""


def test_a_fleet_whose_replica_starts_is_no_failure(
    server: ScriptedServer, capsys: Capture
) -> None:
    starting = policy_pb2.FleetReplica(
        name="a", self=True, version="1.0", state=policy_pb2.REPLICA_STATE_STARTING
    )
    server.script.answers["GetFleet"] = policy_pb2.GetFleetResponse(replicas=[starting])
    assert main([*PATIENT, "fleet"]) == 0
    output, errors = capsys.readouterr()
    assert "a (asked)  starting: it has not joined the fleet yet\n" in output
    assert errors == ""
    assert main([*PATIENT, "fleet", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agreed"], document["replicas"][0]["state"]) == (False, "starting")
    server.script.answers["GetFleet"] = policy_pb2.GetFleetResponse(
        replicas=[starting], problems=["the replicas serve different policies"]
    )
    assert main([*PATIENT, "fleet"]) == 1
    assert "different policies" in capsys.readouterr().err


DOCUMENTS: list[tuple[str, int, Any]] = [
    (
        "check alice root.A",
        0,
        {
            "user": "alice",
            "queue": "root.A",
            "access": "submit",
            "partition": "default",
            "allowed": True,
            "reason": "user",
            "matched_queue": "root.a",
            "matched_subject": "alice",
            "policy_revision": 7,
            "evaluated_queue": "",
        },
    ),
    (
        "explain denied root.a",
        1,
        {
            "user": "denied",
            "queue": "root.a",
            "access": "submit",
            "partition": "default",
            "decision": {
                "allowed": False,
                "reason": "no_match",
                "matched_queue": "",
                "matched_subject": "",
                "policy_revision": 7,
                "evaluated_queue": "",
            },
            "steps": [
                {
                    "queue": "root.a",
                    "acl": "submit",
                    "acl_text": "a,b c.d",
                    "outcome": "no_match",
                    "matched_subject": "",
                    "dropped_names": ["c.d"],
                    "template_property": "",
                }
            ],
            "groups": {
                "origin": "cache",
                "groups": ["g1", "g2"],
                "resolver": "corp",
                "detail": "",
            },
            "evaluated_queue": "root.a",
            "will_be_created": False,
            "is_parent": False,
        },
    ),
    (
        "queues alice --access admin --prefix root",
        0,
        {
            "user": "alice",
            "access": "admin",
            "partition": "default",
            "prefix": "root",
            "queues": QUEUES,
        },
    ),
    (
        "resolve alice --partition gpu",
        0,
        {
            "user": "alice",
            "partition": "gpu",
            "groups": ["g1", "g2"],
            "outcome": "resolved",
            "resolver": "corp",
            "cached": True,
            "stale": False,
            "resolved_at": "2023-11-14T22:13:20+00:00",
            "expires_at": None,
            "detail": "",
        },
    ),
    (
        "policy",
        0,
        {
            "partition": "default",
            "source": "queues.yaml",
            "revision": 7,
            "checksum": "ABC",
            "loaded_at": "2023-11-14T22:13:20+00:00",
            "queues": [
                {
                    "path": "root",
                    "submit_acl": "*",
                    "admin_acl": "",
                    "submit_acl_dropped_names": [],
                    "admin_acl_dropped_names": [],
                    "created_levels": 0,
                }
            ],
            "resolver": "corp",
            "partitions": ["default", "gpu"],
            "diagnostics": [],
            "reload_failed_at": None,
            "reload_diagnostics": [],
            "templates": [],
            "format": "",
            "semantics": "",
            "unenforced": [],
        },
    ),
    ("reload", 0, {"succeeded": True, "revision": 8, "diagnostics": []}),
    ("invalidate alice", 0, {"users": ["alice"], "partition": "default", "dropped": 1}),
    ("health", 0, {"status": "serving"}),
    ("health --service down", 1, {"service": "down", "status": "not_serving"}),
]


@pytest.mark.parametrize(("line", "status", "document"), DOCUMENTS)
def test_documents(
    server: ScriptedServer, capsys: Capture, line: str, status: int, document: Any
) -> None:
    assert main([*PATIENT, *line.split(), "-o", "json"]) == status
    output, errors = capsys.readouterr()
    assert json.loads(output) == document
    assert list(json.loads(output)) == list(document)
    assert output.isascii()
    assert errors == ""
    assert main([*PATIENT, "-o", "yaml", *line.split()]) == status
    output, errors = capsys.readouterr()
    assert yaml.safe_load(output) == document
    assert output.isprintable() or output.replace("\n", "").isprintable()
    assert errors == ""


TABLES = [
    ("queues alice", ["QUEUE", "root", "root.a", "root.b\\x1b"]),
    ("policy", ["QUEUE  SUBMIT ACL  ADMIN ACL", "root   *"]),
]


@pytest.mark.parametrize(("line", "table"), TABLES)
def test_tables(server: ScriptedServer, capsys: Capture, line: str, table: list[str]) -> None:
    assert main([*PATIENT, "-o", "table", *line.split()]) == 0
    output, errors = capsys.readouterr()
    assert output.splitlines() == table
    assert errors == ""


def test_a_table_is_for_lists_only(server: ScriptedServer, capsys: Capture) -> None:
    assert main(["-o", "table", "reload"]) == 2
    assert "--output table is for commands that print a list" in capsys.readouterr().err
    assert main(["reload", "-o", "table"]) == 2
    assert "'table' is not one of 'text', 'json', 'yaml'" in capsys.readouterr().err
    assert server.script.calls == []


@pytest.mark.parametrize("output", ["text", "table"])
def test_an_empty_list_says_so_beside_the_list(
    server: ScriptedServer, capsys: Capture, output: str
) -> None:
    server.script.answers["ListQueues"] = access_pb2.ListQueuesResponse()
    assert main([*PATIENT, "queues", "alice", "-o", output]) == 0
    heads = "QUEUE\n" if output == "table" else ""
    assert capsys.readouterr() == (heads, "alice may submit to none of the configured queues\n")
    server.script.answers["GetPolicy"] = policy_pb2.GetPolicyResponse()
    assert main([*PATIENT, "policy", "--prefix", "root.x", "-o", output]) == 1
    assert capsys.readouterr().err == "queue root.x does not exist\n"


def test_queues_with_their_entries(server: ScriptedServer, capsys: Capture) -> None:
    assert main([*PATIENT, "queues", "alice", "--why", "--access", "admin"]) == 0
    lines = capsys.readouterr().out.splitlines()
    widths = {line.index("group staff\\x1b in the admin ACL of root") for line in lines}
    assert widths == {len("root.b\\x1b") + 2}
    assert main([*PATIENT, "queues", "alice", "--why", "-o", "table"]) == 0
    heads, first, *_ = capsys.readouterr().out.splitlines()
    assert heads.split() == ["QUEUE", "VIA", "ACL", "OF", "QUEUE"]
    assert first.split() == ["root", "group", "staff\\x1b", "submit", "root"]
    assert main([*PATIENT, "queues", "alice", "--why", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    via = {"queue": "root", "acl": "submit", "kind": "group", "name": "staff\x1b", "nested": []}
    assert document["queues"][0] == {"queue": "root", "via": via}
    server.script.answers["ListQueues"] = access_pb2.ListQueuesResponse()
    assert main([*PATIENT, "queues", "alice", "--why"]) == 0
    assert capsys.readouterr() == ("", "alice may submit to none of the configured queues\n")


def test_options_reach_the_server(script: Script) -> None:
    line = "check alice root.a --partition gpu --access admin --group a --group b --timeout 50"
    assert main(line.split()) == 0
    (call,) = script.calls
    assert call.request.partition == "gpu"
    assert list(call.request.user.groups) == ["a", "b"]
    assert call.request.access == 2
    assert call.seconds_left
    assert 20 < call.seconds_left < 55


def test_a_reload_has_more_time(script: Script) -> None:
    assert main(["reload"]) == 0
    assert script.calls[0].seconds_left
    assert script.calls[0].seconds_left > 20
