"""`queuegate` against a server: its output and exit statuses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from queuegate.cli import main
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
    ("resolve alice", 0, "alice: g1, g2"),
    ("resolve alice --bypass-cache", 0, "resolver corp, just resolved"),
    ("policy", 0, "checksum    ABC"),
    ("reload", 0, "serving revision 8"),
    ("invalidate alice bob", 0, "dropped 2 cached answers"),
    ("invalidate --all", 0, "dropped 1000 cached answers"),
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


DOCUMENTS: list[tuple[str, int, Any]] = [
    (
        "check alice root.A",
        0,
        {
            "allowed": True,
            "reason": "user",
            "matched_queue": "root.a",
            "matched_subject": "alice",
            "policy_revision": 7,
        },
    ),
    (
        "explain denied root.a",
        1,
        {
            "decision": {
                "allowed": False,
                "reason": "no_match",
                "matched_queue": "",
                "matched_subject": "",
                "policy_revision": 7,
            },
            "steps": [
                {
                    "queue": "root.a",
                    "acl": "submit",
                    "acl_text": "a,b c.d",
                    "outcome": "no_match",
                    "matched_subject": "",
                    "dropped_names": ["c.d"],
                }
            ],
            "groups": {
                "origin": "cache",
                "groups": ["g1", "g2"],
                "resolver": "corp",
                "detail": "",
            },
            "evaluated_queue": "root.a",
        },
    ),
    ("queues alice", 0, {"queues": QUEUES}),
    (
        "resolve alice",
        0,
        {
            "user": "alice",
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
                }
            ],
            "resolver": "corp",
            "partitions": ["default", "gpu"],
            "diagnostics": [],
            "reload_failed_at": None,
            "reload_diagnostics": [],
        },
    ),
    ("reload", 0, {"succeeded": True, "revision": 8, "diagnostics": []}),
    ("invalidate alice", 0, {"dropped": 1}),
    ("health", 0, {"status": "serving"}),
    ("health --service down", 1, {"status": "not_serving"}),
]


@pytest.mark.parametrize(("line", "status", "document"), DOCUMENTS)
def test_documents(
    server: ScriptedServer, capsys: Capture, line: str, status: int, document: Any
) -> None:
    assert main([*PATIENT, *line.split(), "--output", "json"]) == status
    output, errors = capsys.readouterr()
    assert json.loads(output) == document
    assert output.isascii()
    assert errors == ""


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
