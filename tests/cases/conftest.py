"""What golden cases can ask for with a line `with NAME`."""

from collections.abc import Iterator, Mapping
from typing import Final

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, RetryInfo

from tests.support.console_http import Browser
from tests.support.eventually import eventually
from tests.support.fakes.scripted_server import Fault, ScriptedServer
from tests.support.servers.console_server import (
    RunningConsole,
    creating_console,
    running_console,
)


def _violation(field: str, description: str) -> BadRequest:
    violation = BadRequest.FieldViolation(field=field, description=description)
    return BadRequest(field_violations=[violation])


Code = grpc.StatusCode
FAULTS: Final[Mapping[str, Fault]] = {
    "odd-queue": Fault(
        Code.INVALID_ARGUMENT, "x", "INVALID_FIELD", [_violation("queue", "is\x1b odd")]
    ),
    "odd-user": Fault(
        Code.INVALID_ARGUMENT, "x", "INVALID_FIELD", [_violation("user.user", "is odd")]
    ),
    "other-partition": Fault(Code.NOT_FOUND, "no partition 'gpu'", "UNKNOWN_PARTITION"),
    "not-permitted": Fault(Code.PERMISSION_DENIED, "not you", "CALLER_NOT_PERMITTED"),
    "no-directory": Fault(
        Code.UNAVAILABLE,
        "ldap down",
        "RESOLVER_UNAVAILABLE",
        [RetryInfo(retry_delay=Duration(seconds=5))],
    ),
    "no-directory-yet": Fault(
        Code.UNAVAILABLE,
        "ldap down",
        "RESOLVER_UNAVAILABLE",
        [RetryInfo(retry_delay=Duration(seconds=5, nanos=98_636_000))],
    ),
    "unknown-caller": Fault(
        Code.UNAUTHENTICATED, "the server does not know the bearer token", "CALLER_UNKNOWN"
    ),
    "no-policy": Fault(Code.UNAVAILABLE, "no policy yet", "NOT_READY"),
    "overload": Fault(Code.RESOURCE_EXHAUSTED, "busy", "OVERLOADED"),
    "defect": Fault(Code.INTERNAL, "internal error 1f", "INTERNAL"),
}
"""How calls to the scripted server end, by the user whom they are about."""


@pytest.fixture
def scripted_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A server that answers by a script, whose address `queuegate` finds in its environment.

    Its health service is not serving `down`; calls about users in `FAULTS` fail.
    """
    with ScriptedServer(
        queues=["root", "root.a", "root.b\x1b"], health_of={"": 1, "down": 2}
    ) as server:
        server.script.faults_of_users = FAULTS
        monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)
        yield {server.address: "$ADDRESS"}


def _shown(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("CONSOLE", console.url)
    # From now on, pages name the places of the policy.
    eventually(
        lambda: "default (queue at" in Browser(console.url).get("queues").text, expected=True
    )
    return {console.server.address: "$ADDRESS"}


@pytest.fixture
def console(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The console of a server with the example policy, for the program `page`."""
    with running_console(tmp_path_factory.mktemp("console")) as running:
        yield _shown(running, monkeypatch)


@pytest.fixture
def console_of_yarn(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The same, whose partition `yarn` has queues that YARN will create."""
    folder = tmp_path_factory.mktemp("policies")
    with creating_console(folder) as running:
        yield {**_shown(running, monkeypatch), str(folder): "$POLICIES"}
