"""A hostile identity provider takes the service from nobody who does not need it."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import MAX_MEMORY
from tests.resilience.isolation.new_users import (
    NEWCOMERS,
    POLICY,
    QUEUES,
    ask_about_new_users,
    expect_newcomers_to_wait,
)
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.fakes.keycloak import API, CLIENT, SECRET, FakeRealm
from tests.support.fakes.rest_api import Reply, Request, RestApi, running_api
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import running_server

MAX_VALUES = 49_000
"""As many as an answer may have, and room for the rest of it."""
GROUPS = 4_900
LONG_NAME = "g" * 900

Answer = Callable[[Request], Reply | None]
NEVER_PAUSED = with_constants.environment(with_constants.NEVER_PAUSED)


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


class Endless:
    """Bytes without an end, after others."""

    def __init__(self, text: bytes, before: bytes = b"") -> None:
        self._before = before
        self._block = text * (64 * 1024 // len(text) + 1)

    def __iter__(self) -> Iterator[bytes]:
        yield self._before
        yield from itertools.repeat(self._block)


def endless(text: bytes, before: bytes = b"") -> Answer:
    """Return bytes without an end, instead of an answer to each look-up of a user."""
    raw = Endless(text, before)
    return lambda request: Reply(raw=raw) if request.path.startswith(API) else None


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
EMPTY = OK + b"Content-Length: 2\r\n\r\n[]"

ANSWERS: dict[str, Answer] = {
    "endless 100 Continue": endless(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless 103 Early Hints": endless(b"HTTP/1.1 103 x\r\nLink: </a>\r\n\r\n"),
    "one-byte chunks without an end": endless(b"1\r\nx\r\n", CHUNKED),
    "extensions of chunks without an end": endless(b"1;a=b;c=d\r\nx\r\n", CHUNKED),
    "a body without an end": endless(b"x", OK + b"\r\n"),
    "headers without an end": endless(b"A: b\r\n", OK),
    "answers without an end": endless(EMPTY),
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


PARTITIONS = (
    POLICY.replace(" analytics", " /analytics")
    + """\
  - name: other
    queues:
      - name: root
        queues:
          - {name: team, submitacl: " /analytics"}
"""
)


@pytest.fixture(scope="module")
def hostile() -> Iterator[RestApi]:
    with running_api(realm().answer) as api:
        yield api


@pytest.fixture(scope="module")
def honest() -> Iterator[RestApi]:
    with running_api(realm().answer) as api:
        yield api


def realm() -> FakeRealm:
    created = FakeRealm()
    created.join("alice", ("analytics",))
    for name in range(len(ANSWERS) * NEWCOMERS):
        created.join(f"honest{name}", ("data",))
    return created


@pytest.fixture(scope="module")
def beside_provider(
    hostile: RestApi, honest: RestApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observation]:
    """Observe a server that knows alice's groups, and of which each partition has a provider."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "queues.yaml").write_text(PARTITIONS)
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    config = folder / "queuegate.yaml"
    resolvers = "".join(
        f"""\
  {name}:
    type: keycloak
    url: {url}
    realm: corp
    client_id: {CLIENT}
    client_secret_file: {secret}
    allow_plaintext: true
"""
        for name, url in (("corp", hostile.url), ("others", honest.url))
    )
    config.write_text(
        f"""\
policy: {{path: {folder}/queues.yaml}}
resolvers:
{resolvers}
partitions:
  default: {{resolver: corp, acl_names: any, cache: {{failure_ttl: 1ms}}}}
  other: {{resolver: others, acl_names: any}}
"""
    )
    with (
        running_server("--config", str(config), environment=NEVER_PAUSED) as server,
        observed(server, queues=QUEUES, max_memory=MAX_MEMORY) as found,
    ):
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

    expect_isolation(beside_provider, record, flood, MAX_MEMORY)


@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=ANSWERS)
def test_new_users_of_a_hostile_provider(
    hostile: RestApi, beside_provider: Observation, record: Record, number: int
) -> None:
    """They wait for the same source as the flood, but never longer than for a look-up."""
    answer = list(ANSWERS.values())[number]

    def fault(request: Request) -> Reply | None:
        name = request.query.get("username", request.path)
        return None if "honest" in name else answer(request)

    hostile.fault = fault
    expect_newcomers_to_wait(beside_provider.server.address, record, newcomers(number))
    hostile.fault = lambda _: None


@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=ANSWERS)
def test_new_users_of_another_provider(
    hostile: RestApi, beside_provider: Observation, record: Record, number: int
) -> None:
    """They share no look-ups with the flood, only the time in which answers are parsed."""
    hostile.fault = list(ANSWERS.values())[number]
    outcomes = expect_newcomers_to_wait(
        beside_provider.server.address, record, newcomers(number), "other"
    )
    hostile.fault = lambda _: None
    assert outcomes.keys() <= {"answered", "wrong"}


def newcomers(number: int) -> list[str]:
    """Return the names of users whom no other test with this provider asks about."""
    first = number * NEWCOMERS
    return [f"honest{name}" for name in range(first, first + NEWCOMERS)]
