"""The arguments of the command line."""

import dataclasses
from importlib.metadata import version
from typing import Any, NoReturn, Self

import pytest

import queuegate
from queuegate.cli import main
from queuegate.cli.session import Session

Capture = pytest.CaptureFixture[str]


class Called(Exception):
    """The call that a command made, and the options of its session."""


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Commands call a client that notes the arguments and has no answer."""
    arguments: dict[str, Any] = {}

    class Client:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __getattr__(self, method: str) -> Any:
            def call(*given: Any, **named: Any) -> NoReturn:
                arguments.update(named, method=method, given=given)
                raise Called

            return call

    def client(session: Session) -> Client:
        arguments.update(dataclasses.asdict(session))
        return Client()

    monkeypatch.setattr(Session, "client", client)
    return arguments


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    (
        "check alice root.a",
        {
            "method": "check",
            "user": "alice",
            "queue": "root.a",
            "partition": "default",
            "access": "submit",
            "groups": None,
            "real_user": "",
            "address": None,
            "timeout": None,
            "output": None,
        },
    ),
    (
        "check alice root --partition gpu --access admin --group a --group b",
        {"partition": "gpu", "access": "admin", "groups": ("a", "b")},
    ),
    ("--address h:1 --timeout 2.5 -o json check a root", {"address": "h:1", "timeout": 2.5}),
    ("check a root --address h:1 --output json", {"address": "h:1", "output": "json"}),
    ("--address h:1 check a root --address h:2", {"address": "h:2"}),
    ("-o json queues a --prefix root.x", {"output": "json", "prefix": "root.x"}),
    ("resolve a --bypass-cache", {"bypass_cache": True}),
    ("invalidate a b", {"given": (("a", "b"),)}),
    ("invalidate --all", {"given": (None,)}),
    ("policy --prefix root", {"method": "get_policy", "given": ("", "root")}),
    ("reload --timeout 60", {"method": "reload", "timeout": 60.0}),
    ("health --service x", {"method": "check_health", "given": ("x",)}),
    ("check -- -a root", {"user": "-a", "queue": "root"}),
    (
        "health --tls-ca c --tls-cert p --tls-key k --tls-server-name n",
        {"tls_ca": "c", "tls_cert": "p", "tls_key": "k", "tls_server_name": "n"},
    ),
]


@pytest.mark.parametrize(("line", "expected"), ACCEPTED)
def test_accepted(called: dict[str, Any], line: str, expected: dict[str, Any]) -> None:
    assert main(line.split()) == 3
    assert {name: called[name] for name in expected} == expected


REFUSED = [
    ("nosuch", "No such command 'nosuch'."),
    ("chek a root", "No such command 'chek'. (Did you mean one of: 'app-check', 'check'?)"),
    ("check alice", "Missing argument 'QUEUE'."),
    ("check alice root more", "Got unexpected extra argument (more)"),
    ("check alice root --access write", "'--access': 'write' is not one of 'submit', 'admin'."),
    ("check alice root --part gpu", "No such option '--part'. Did you mean '--partition'?"),
    ("check alice root --timeout 0", "'0' is not a number of seconds above 0"),
    ("check alice root --timeout nan", "'nan' is not a number of seconds"),
    ("check alice root --timeout soon", "'soon' is not a number of seconds"),
    ("check alice root --output xml", "'xml' is not one of 'text', 'json'"),
    ("app-check a vieww", "'vieww' is not one of 'view', 'view-logs', 'modify', 'move', 'admin'."),
    ("invalidate", "name the users to invalidate, or use --all"),
    ("invalidate a --all", "name the users to invalidate, or use --all"),
    ("health --tls-cert p", "--tls-cert and --tls-key must be given together"),
    ("resolve a --group g", "No such option '--group'."),
    ("app-check a view --queue q", "pass --queue and --owner, or --spark"),
    ("app-check a view --queue q --owner=", "--owner must not be empty"),
    ("app-check a view --queue= --owner o", "--queue must not be empty"),
    ("app-check a move --queue q --owner o --target-queue=", "--target-queue must not be empty"),
    ("app-check a view --spark --spark-user=", "--spark-user must not be empty"),
    ("tree --user=", "--user must not be empty"),
    ("check a root --real-user=", "--real-user must not be empty"),
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
    ("check alice root \u202ex", "Got unexpected extra argument (\\u202ex)"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED, ids=ascii)
def test_refused(capsys: Capture, line: str, message: str) -> None:
    assert main(line.split()) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("Usage: queuegate ")
    assert errors.splitlines()[-1].startswith("Error: ")
    assert message in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("check alice root --nosuch", "check [OPTIONS] USER QUEUE"),
        ("check alice", "check [OPTIONS] USER QUEUE"),
        ("invalidate --nosuch", "invalidate [OPTIONS] USER... | --all"),
        ("invalidate", "invalidate [OPTIONS] USER... | --all"),
        ("--nosuch check alice root", "[OPTIONS] COMMAND [ARGS]..."),
    ],
)
def test_an_error_after_a_verb_shows_its_usage(capsys: Capture, line: str, usage: str) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"Usage: queuegate {usage}"


def test_alone_it_prints_its_help_and_is_no_yes(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert main([]) == 2
    assert capsys.readouterr() == ("", help_text)


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
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(capsys: Capture, verb: str, option: str) -> None:
    assert main([verb, option]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"Usage: queuegate {verb} [OPTIONS]")
    assert output.index("Options:") < output.index("Server and output:")
    assert "--address" in output


def test_the_overview_lists_the_exit_statuses(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    for text in ("Exit status:", "QUEUEGATE_ADDRESS", "NO_COLOR", "127.0.0.1:50051"):
        assert text in output


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"queuegate {version('queuegate')}\n"
    assert queuegate.__version__ == version("queuegate")
