"""A hostile identity provider takes the service from nobody who does not need it."""

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.new_users import POLICY, ask_about_new_users
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.fakes.keycloak import API, CLIENT, SECRET, FakeRealm
from tests.support.fakes.rest_api import Reply, Request, RestApi, running_api
from tests.support.servers.queuegate_server import running_server

MAX_VALUES = 49_000
"""As many as an answer may have, and room for the rest of it."""
GROUPS = 4_900
LONG_NAME = "g" * 900

Answer = Callable[[Request], Reply | None]


def always(body: bytes) -> Answer:
    """Return an answer to each look-up of a user."""
    return lambda request: Reply(200, body) if request.path.startswith(API) else None


def with_groups(groups: Callable[[int, int], Any]) -> Answer:
    """Return answers with any user; a page of its groups is computed from its place and size."""

    @functools.cache
    def page(first: int, most: int) -> bytes:
        return json.dumps(groups(first, most)).encode()

    def answer(request: Request) -> Reply | None:
        if request.path == f"{API}/users":
            name = request.query["username"]
            return Reply(200, [{"id": name, "username": name, "enabled": True}])
        if request.path.endswith("/groups"):
            return Reply(200, page(int(request.query["first"]), int(request.query["max"])))
        return None

    return answer


def long_groups(first: int, most: int) -> list[Any]:
    return [
        {"id": str(place), "name": f"{place}{LONG_NAME}", "path": f"/{place}{LONG_NAME}"}
        for place in range(first, min(first + most, GROUPS))
    ]


ANSWERS: dict[str, Answer] = {
    "lists": always(b"[" + b"[]," * 690_000 + b"[]]"),
    "as many lists as are allowed": always(b"[" + b"[]," * (MAX_VALUES // 2) + b"[]]"),
    "as many nested lists as are allowed": always(b"[" + b"[[[]]]," * (MAX_VALUES // 4) + b"[]]"),
    "as many keys as are allowed": always(
        json.dumps([{f"{number:040x}": 0 for number in range(MAX_VALUES)}]).encode()
    ),
    "a long text": always(json.dumps([{"id": "x" * 2_000_000}]).encode()),
    "escapes": always(b'[{"id": "' + rb"\u0041" * 340_000 + b'"}]'),
    "digits": always(b"[" + b"9" * 2_000_000 + b"]"),
    "a deep list": always(b"[" * 2_000_000),
    "as many groups as are allowed": with_groups(long_groups),
    "pages without an end": with_groups(
        lambda first, most: [
            {"id": str(place), "name": str(place), "path": f"/{place}"}
            for place in range(first, first + most)
        ]
    ),
}


@pytest.fixture(scope="module")
def hostile() -> Iterator[RestApi]:
    with running_api(FakeRealm().answer) as api:
        yield api


@pytest.fixture(scope="module")
def beside_provider(
    hostile: RestApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observation]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "queues.yaml").write_text(POLICY)
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    config = folder / "queuegate.yaml"
    config.write_text(
        f"""\
policy: {{path: {folder}/queues.yaml}}
resolvers:
  corp:
    type: keycloak
    url: {hostile.url}
    realm: corp
    client_id: {CLIENT}
    client_secret_file: {secret}
    allow_plaintext: true
    breaker_failures: 10000
partitions:
  default: {{resolver: corp, cache: {{failure_ttl: 1ms}}}}
"""
    )
    with running_server("--config", str(config)) as server, observed(server) as found:
        yield found


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_hostile_provider(
    hostile: RestApi, beside_provider: Observation, record: Record, answer: Answer
) -> None:
    def flood() -> None:
        hostile.fault = answer
        asked = len(hostile.requests)
        ask_about_new_users(beside_provider.server.address)
        assert len(hostile.requests) > asked
        hostile.fault = lambda _: None

    expect_isolation(beside_provider, record, flood)
