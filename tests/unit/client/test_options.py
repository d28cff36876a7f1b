"""The arguments of the command line."""

import dataclasses
from importlib.metadata import version
from typing import Any, NoReturn, Self

import pytest

import queuegate
from queuegate.cli import main
from queuegate.cli.invocation import Invocation

Capture = pytest.CaptureFixture[str]


class Called(Exception):
    """The call that a command made, and the options of its invocation."""


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

    def client(invocation: Invocation) -> Client:
        arguments.update(dataclasses.asdict(invocation))
        return Client()

    monkeypatch.setattr(Invocation, "client", client)
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
