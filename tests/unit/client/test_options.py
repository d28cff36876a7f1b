"""The arguments of the command line."""

from importlib.metadata import version
from typing import Any

import pytest

from queuegate.cli.options import parse

ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    (
        "check alice root.a",
        {
            "command": "check",
            "user": "alice",
            "queue": "root.a",
            "partition": "default",
            "access": "submit",
            "groups": [],
            "address": None,
            "timeout": None,
            "output": "text",
        },
    ),
    (
        "check alice root --partition gpu --access admin --group a --group b",
        {"partition": "gpu", "access": "admin", "groups": ["a", "b"]},
    ),
    ("--address h:1 --timeout 2.5 --output json check a root", {"address": "h:1", "timeout": 2.5}),
    ("check a root --address h:1 --output json", {"address": "h:1", "output": "json"}),
    ("--address h:1 check a root --address h:2", {"address": "h:2"}),
    ("--output json queues a --prefix root.x", {"output": "json", "prefix": "root.x"}),
    ("resolve a --bypass-cache", {"bypass_cache": True}),
    ("invalidate a b", {"users": ["a", "b"], "all": False}),
    ("invalidate --all", {"users": [], "all": True}),
    ("policy --prefix root", {"command": "policy", "prefix": "root"}),
    ("reload --timeout 60", {"command": "reload", "timeout": 60.0}),
    ("health --service x", {"command": "health", "service": "x"}),
    ("check -- -a root", {"user": "-a"}),
    (
        "health --tls-ca c --tls-cert p --tls-key k --tls-server-name n",
        {"tls_ca": "c", "tls_cert": "p", "tls_key": "k", "tls_server_name": "n"},
    ),
]


@pytest.mark.parametrize(("line", "expected"), ACCEPTED)
def test_accepted(line: str, expected: dict[str, Any]) -> None:
    options = vars(parse(line.split()))
    assert {name: options[name] for name in expected} == expected


REFUSED = [
    ("", "required: COMMAND"),
    ("nosuch", "invalid choice: 'nosuch'"),
    ("check alice", "required: QUEUE"),
    ("check alice root more", "unrecognized arguments: more"),
    ("check alice root --access write", "invalid choice: 'write'"),
    ("check alice root --part gpu", "unrecognized arguments: --part"),
    ("check alice root --timeout 0", "'0' is not a number of seconds above 0"),
    ("check alice root --timeout nan", "'nan' is not a number of seconds"),
    ("check alice root --timeout soon", "'soon' is not a number of seconds"),
    ("check alice root --output yaml", "invalid choice: 'yaml'"),
    ("invalidate", "give the users to invalidate, or --all"),
    ("invalidate a --all", "give the users to invalidate, or --all"),
    ("health --tls-cert p", "--tls-cert and --tls-key must be given together"),
    ("resolve a --group g", "unrecognized arguments: --group g"),
    ("app-check a view --queue q", "give --queue and --owner, or --spark"),
    ("app-check a view --spark --queue q --owner o", "--queue, --owner: not allowed with --spark"),
    (
        "app-check a view --spark --view-acl * --modify-acl *",
        "--view-acl, --modify-acl: not allowed with",
    ),
    ("app-check a move --spark --target-queue q", "--target-queue: not allowed with --spark"),
    ("app-check a view --spark --real-user r", "--real-user: not allowed with --spark"),
    (
        "app-check a view --queue q --owner o --property a=b",
        "--property: only allowed with --spark",
    ),
    (
        "app-check a view --queue q --owner o --spark-user s --process-user p",
        "--spark-user, --process-user: only allowed with --spark",
    ),
    ("app-check a view --spark --property a", "--property must be NAME=VALUE"),
    ("app-check a view --spark --property a=b --property a=c", "a is given more than once"),
    ("check alice root \x1b[31m", "unrecognized arguments: \\x1b[31m"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=ascii)
def test_refused(capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    assert caught.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.splitlines()[0].startswith("usage: queuegate ")
    assert message in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("check alice root --nosuch", "check [OPTIONS] USER QUEUE"),
        ("--nosuch check alice root", "check [OPTIONS] USER QUEUE"),
        ("check alice", "check [OPTIONS] USER QUEUE"),
        ("invalidate --nosuch", "invalidate [OPTIONS] USER... | --all"),
        ("invalidate", "invalidate [OPTIONS] USER... | --all"),
        ("--nosuch", "[OPTIONS] COMMAND ..."),
    ],
)
def test_an_error_after_a_verb_shows_its_usage(
    capsys: pytest.CaptureFixture[str], line: str, usage: str
) -> None:
    with pytest.raises(SystemExit):
        parse(line.split())
    assert capsys.readouterr().err.splitlines()[0] == f"usage: queuegate {usage}"


@pytest.mark.parametrize(
    "verb",
    [
        "check",
        "explain",
        "app-check",
        "queues",
        "resolve",
        "invalidate",
        "policy",
        "reload",
        "health",
    ],
)
def test_help(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse([verb, "--help"])
    assert caught.value.code == 0
    output = capsys.readouterr().out
    assert output.startswith(f"usage: queuegate {verb} [OPTIONS]")
    assert "--address" in output


def test_the_overview_lists_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    output = capsys.readouterr().out
    for text in ("exit status:", "QUEUEGATE_ADDRESS", "NO_COLOR", "127.0.0.1:50051"):
        assert text in output


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"queuegate {version('queuegate')}\n"
