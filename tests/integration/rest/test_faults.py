"""Faults of a provider: nobody becomes unknown, or loses a group. MATRIX.md lists them."""

import asyncio
import dataclasses
import gc
import logging
import socket
import ssl
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.keycloak_resolver import KeycloakResolver
from queuegate_server.identity.rest.answer_limits import (
    MAX_BODY_BYTES,
    MAX_SMALL_BODY_BYTES,
    MAX_VALUES,
)
from queuegate_server.identity.rest.answers import (
    DEFAULT_PAUSE,
    MAX_PAUSE,
)
from tests.integration.rest.conftest import Build
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.keycloak import API, SECRET, TOKEN, FakeRealm
from tests.support.fakes.rest_api import Reply, Request, RestApi, running_api
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers.free_ports import free_port

pytestmark = pytest.mark.usefixtures("no_task_left")

ALICE = KnownUser(("/eng/backend/db", "/ops"))
HTML = {"Content-Type": "text/html"}


def only(path: str, reply: Reply) -> Callable[[Request], Reply | None]:
    """Return a fault of the requests whose paths end so."""
    return lambda request: reply if request.path.endswith(path) else None


def requests_for_tokens(api: RestApi) -> int:
    return sum(path.endswith("/token") for path in api.paths())


@pytest.mark.parametrize("path", ["/token", "/users", "/groups"])
@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(500, {"error": "unknown_error"}), "unknown_error (500)"),
        (Reply(502, b"<html>", HTML), "(502)"),
        (Reply(502, b" " * (MAX_BODY_BYTES + 1), HTML), "larger than 2 MiB"),
        (Reply(400, ["unexpected"]), "(400)"),
        (Reply(200, b"<html>login</html>", HTML), "text/html instead of JSON"),
        (Reply(200, b'[{"id": "x", "user'), "malformed JSON"),
        (Reply(200, b"[" * 40_000), "malformed JSON"),
        (Reply(200, [], cut=1), "in the middle of its answer"),
        (Reply(200, b'[{"id": "x"}]', cut=3), "in the middle of its answer"),
        (Reply(200, b" " * (MAX_BODY_BYTES + 1)), "larger than 2 MiB"),
        (Reply(200, b"x", {"Content-Encoding": "gzip"}), "compressed"),
        (Reply(302, b"", {"Location": "https://elsewhere.example"}), "sent a redirect (302)"),
        (Reply(308, b"", {"Location": "/"}), "sent a redirect (308)"),
        (Reply(404, b"<html>", HTML), "not found (404)"),
        (Reply(403, {"error": "HTTP 403 Forbidden"}), "(403)"),
        (Reply(204, b""), "(204)"),
        (Reply(200, {"unexpected": 1}), ""),
        (Reply(200, [{"unexpected": 1}]), ""),
        (Reply(200, ["text"]), ""),
        (Reply(200, [{"id": 7, "username": "alice", "enabled": True, "path": [], "name": 0}]), ""),
        (Reply(200, [{"id": "..", "username": "alice", "enabled": True, "path": "/a"}]), ""),
    ],
    ids=str,
)
async def test_a_faulty_answer(
    resolver: Build, api: RestApi, path: str, reply: Reply, detail: str
) -> None:
    asked = await resolver()
    api.fault = only(path, reply)
    outcome = await asked.resolve("alice")
    assert isinstance(outcome, LookupFailure), outcome
    assert detail in outcome.detail
    assert not outcome.too_many
    is_data = path != "/token" and reply.status in {200, 400}
    assert outcome.source_works == (is_data and detail in {"larger than 2 MiB", "(400)"})
    assert SECRET not in outcome.detail
    assert TOKEN not in outcome.detail
    api.fault = lambda _: None
    assert await asked.resolve("alice") == ALICE


async def test_bodies_that_would_take_long_to_decode(resolver: Build, api: RestApi) -> None:
    asked = await resolver()
    for path, body, detail, source_works in (
        ("/token", b" " * (MAX_SMALL_BODY_BYTES + 1), "larger than 64 KiB", False),
        ("/users", b"[" + b"[]," * MAX_VALUES + b"[]]", "more than 50000 values", True),
        ("/groups", b" " * (MAX_BODY_BYTES + 1), "larger than 2 MiB", True),
    ):
        api.fault = only(path, Reply(200, body))
        assert detail in await lookup_failure(asked, "alice", source_works=source_works)


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (Reply(400, {"error": "invalid"}), "invalid (400)"),
        (Reply(200, [{"id": "x", "name": "a", "path": "/" + "x" * 1024}]), "more than 1024 char"),
        (Reply(200, [{"id": "x", "name": "", "path": "/x"}]), "the name of an item is empty"),
        (Reply(200, [{"id": "x", "name": "a\n", "path": "/a\n"}]), "control characters"),
    ],
)
async def test_groups_that_cannot_be_used(
    resolver: Build, api: RestApi, reply: Reply, detail: str
) -> None:
    """Anyone who may create groups must not be able to open the circuit breaker."""
    asked = await resolver()
    api.fault = only("/groups", reply)
    assert detail in await lookup_failure(asked, "alice", source_works=True)


async def test_a_page_that_is_missing(resolver: Build, realm: FakeRealm, api: RestApi) -> None:
    realm.join("erin", *((f"g{number:03}",) for number in range(30)))
    asked = await resolver(page_size=10)
    for reply in (Reply(500, {}), Reply(200, []), Reply(200, [{"id": "another", "path": "/x"}])):
        api.fault = lambda request, reply=reply: (  # type: ignore[misc]
            reply if request.query.get("first") == "9" else None
        )
        assert isinstance(await asked.resolve("erin"), LookupFailure)


@pytest.mark.parametrize("path", ["/token", "/users", "/groups"])
async def test_a_server_that_hangs(resolver: Build, api: RestApi, path: str) -> None:
    api.fault = only(path, Reply(hangs=True))
    failure = await lookup_failure(await resolver(request_timeout=0.2), "alice")
    assert "no answer within 0.2 s (request_timeout)" in failure


async def test_a_server_that_accepts_no_connection(resolver: Build) -> None:
    """Its queue takes the connection, and nobody answers the handshake of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        outcome = await (await resolver(url=url, connect_timeout=0.2)).resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert "no connection within 0.2 s (check the address" in outcome.detail


async def test_connections_are_bounded(resolver: Build, api: RestApi) -> None:
    asked = await resolver(max_connections=2)
    outcomes = await asyncio.gather(*(asked.resolve("alice") for _ in range(20)))
    assert outcomes == [ALICE] * 20
    assert api.connections == 2


def test_an_abandoned_request_leaves_no_connection(
    options: Callable[..., KeycloakOptions], api: RestApi
) -> None:
    """The server does not take part in the shutdown of TLS."""
    api.fault = lambda _: Reply(hangs=True)

    async def abandon() -> None:
        resolver = KeycloakResolver(options())
        await resolver.open()
        lookup = asyncio.ensure_future(resolver.resolve("alice"))
        await asyncio.to_thread(eventually, lambda: bool(api.requests), expected=True)
        lookup.cancel()
        await asyncio.gather(lookup, return_exceptions=True)
        await resolver.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(abandon())
        gc.collect()
    assert not caught


async def test_an_idle_connection_is_used_again(
    resolver: Build, api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: now)
    asked = await resolver()
    for idle, connections in ((0, 1), (50, 1), (60, 2)):
        now += idle
        assert await asked.resolve("alice") == ALICE
        assert api.connections == connections


async def test_a_connection_that_ends_while_it_is_idle(
    resolver: Build, api: RestApi, realm: FakeRealm
) -> None:
    """The next request is sent again on another one."""
    api.fault = lambda request: dataclasses.replace(realm.answer(request), cut=MAX_BODY_BYTES)
    asked = await resolver()
    for _ in range(10):
        assert await asked.resolve("alice") == ALICE
    assert api.connections > 10


async def test_a_server_that_is_down(resolver: Build) -> None:
    address = f"127.0.0.1:{free_port()}"
    for settings, peer, advice in (
        ({"url": f"https://{address}"}, address, "check the address, the port"),
        ({"proxy": f"http://{address}"}, f"the proxy {address}", "check proxy"),
    ):
        failure = await lookup_failure(await resolver(**settings), "alice")
        assert f"cannot connect to {peer}: Connection refused ({advice}" in failure
    unknown = await resolver(proxy="http://proxy.invalid:3128")
    failure = await lookup_failure(unknown, "alice")
    assert "cannot connect to the proxy proxy.invalid:3128: " in failure
    assert "(check proxy)" in failure


async def test_a_port_that_expects_tls(resolver: Build, api: RestApi) -> None:
    plain = api.url.replace("https:", "http:")
    for settings, advice in (
        ({"url": plain, "allow_plaintext": True}, "whether the port expects https://"),
        ({"proxy": plain}, "whether the setting proxy names a proxy"),
    ):
        failure = await lookup_failure(await resolver(**settings), "alice")
        assert "closed the connection" in failure
        assert advice in failure


async def test_certificates(
    resolver: Build, api: RestApi, tmp_path: Path, clock: ManualClock, ca: trustme.CA
) -> None:
    """Of another authority; of another name; and of one whose file is replaced."""
    file = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    asked = await resolver(ca_file=file)
    failure = await lookup_failure(asked, "alice")
    assert "certificate is not valid" in failure
    assert "ca_file" in failure
    renamed = await resolver(url=api.url.replace("127.0.0.1", "localhost"))
    failure = await lookup_failure(renamed, "alice")
    assert "certificate is not valid" in failure
    assert "use a name from the certificate in the address;" in failure
    replace(file, ca.cert_pem.bytes().decode())
    clock.advance(60)
    assert await asked.resolve("alice") == ALICE
    replace(file, "no certificate")
    clock.advance(60)
    for _ in range(2):
        outcome = await asked.resolve("alice")
        assert isinstance(outcome, LookupFailure)
        assert f"ca_file {file} contains no certificates" in outcome.detail
    replace(file, ca.cert_pem.bytes().decode())
    assert await asked.resolve("alice") == ALICE


async def test_an_expired_certificate(resolver: Build, api: RestApi, ca: trustme.CA) -> None:
    assert api.tls is not None
    yesterday = datetime.now(UTC) - timedelta(days=1)
    ca.issue_cert("127.0.0.1", not_after=yesterday).configure_cert(api.tls)
    failure = await lookup_failure(await resolver(), "alice")
    assert "the server's certificate is not valid: certificate has expired" in failure
    assert "renew the server's certificate, or the CA's in ca_file" in failure


async def test_an_old_version_of_tls(resolver: Build, api: RestApi) -> None:
    assert api.tls is not None
    api.tls.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await (await resolver()).resolve("alice") == ALICE
    outcome = await (await resolver(tls_min_version="1.3")).resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert "TLS handshake failed (check tls_min_version" in outcome.detail


async def test_a_port_without_tls(resolver: Build, realm: FakeRealm) -> None:
    with running_api(realm.answer) as plain:
        outcome = await (await resolver(url=plain.url.replace("http:", "https:"))).resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert "TLS handshake failed" in outcome.detail


@pytest.mark.parametrize(
    ("reply", "pause"),
    [
        (Reply(429, {}, {"Retry-After": "7"}), 7),
        (Reply(429, {}), DEFAULT_PAUSE),
        (Reply(429, {}, {"Retry-After": "soon"}), DEFAULT_PAUSE),
        (Reply(429, {}, {"Retry-After": "0"}), 1),
        (Reply(429, {}, {"Retry-After": "9" * 12}), MAX_PAUSE),
        (Reply(503, {}, {"Retry-After": "7"}), 7),
        (Reply(429, {}, {"X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": "junk"}), 10),
    ],
    ids=str,
)
async def test_throttling(
    resolver: Build, api: RestApi, clock: ManualClock, reply: Reply, pause: float
) -> None:
    """The server is spared for as long as it asks, and nobody is unknown."""
    asked = await resolver()
    assert await asked.resolve("alice") == ALICE
    api.fault = only("/users", reply)
    outcome = await asked.resolve("carol")
    assert isinstance(outcome, LookupFailure)
    assert outcome.too_many
    count = len(api.requests)
    clock.advance(pause - 0.5)
    outcome = await asked.resolve("carol")
    assert isinstance(outcome, LookupFailure)
    assert outcome.too_many
    assert "throttling" in outcome.detail
    assert len(api.requests) == count
    api.fault = lambda _: None
    clock.advance(1)
    assert await asked.resolve("alice") == ALICE


async def test_throttled_tokens_do_not_stop_lookups(
    resolver: Build, api: RestApi, realm: FakeRealm, clock: ManualClock
) -> None:
    """A token is renewed long before it expires."""
    fetched = partial(requests_for_tokens, api)
    asked = await resolver()
    assert await asked.resolve("alice") == ALICE
    clock.advance(realm.lifetime * 0.8)
    api.fault = only("/token", Reply(429, {}, {"Retry-After": "300"}))
    assert await asked.resolve("alice") == ALICE
    await asyncio.to_thread(eventually, fetched, expected=2)
    assert await asked.resolve("carol") == KnownUser(("/sales/backend",))
    clock.advance(realm.lifetime * 0.2)
    outcome = await asked.resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert outcome.too_many
    assert fetched() == 2


async def test_a_date_after_which_to_retry(
    resolver: Build, api: RestApi, clock: ManualClock
) -> None:
    asked = await resolver()
    when = formatdate(time.time() + 120, usegmt=True)
    api.fault = only("/users", Reply(429, {}, {"Retry-After": when}))
    await asked.resolve("alice")
    api.fault = lambda _: None
    clock.advance(60)
    outcome = await asked.resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert outcome.too_many
    clock.advance(100)
    assert await asked.resolve("alice") == ALICE


async def test_throttling_does_not_open_the_breaker(
    resolver: Build, api: RestApi, clock: ManualClock
) -> None:
    """The pause that the server asks for is long enough, and short enough."""
    asked = await resolver()
    guarded = GuardedResolver("corp", asked, ResolverOptions(), clock=clock)
    api.fault = only("/users", Reply(429, {}, {"Retry-After": "60"}))
    for number in range(100):
        outcome = await guarded.resolve(f"u{number}")
        assert isinstance(outcome, LookupFailure)
        assert outcome.too_many
    assert sum(path.endswith("/users") for path in api.paths()) == 1
    api.fault = lambda _: None
    clock.advance(61)
    assert await guarded.resolve("alice") == ALICE


async def test_tokens_are_shared_and_renewed_early(
    resolver: Build, api: RestApi, realm: FakeRealm, clock: ManualClock
) -> None:
    fetched = partial(requests_for_tokens, api)
    asked = await resolver()
    outcomes = await asyncio.gather(*(asked.resolve("alice") for _ in range(20)))
    assert outcomes == [ALICE] * 20
    assert fetched() == 1
    # The old one is used until the new one is there, and if there is none.
    clock.advance(realm.lifetime * 0.8)
    api.fault = only("/token", Reply(500, {}))
    assert await asked.resolve("alice") == ALICE
    await asyncio.to_thread(eventually, fetched, expected=2)
    assert await asked.resolve("alice") == ALICE
    assert fetched() == 2
    api.fault = lambda _: None
    clock.advance(20)
    assert await asked.resolve("alice") == ALICE
    # A token that has expired is not sent.
    realm.token = "the-next-one"
    clock.advance(realm.lifetime + 1)
    assert await asked.resolve("alice") == ALICE


async def test_a_token_that_is_revoked(resolver: Build, api: RestApi, realm: FakeRealm) -> None:
    asked = await resolver()
    assert await asked.resolve("alice") == ALICE
    realm.token = "another"
    assert await asked.resolve("alice") == ALICE
    # One that is never accepted is renewed once for each lookup.
    count = len(api.requests)
    api.fault = only("/users", Reply(401, {"error": "HTTP 401 Unauthorized"}))
    assert "credentials" in await lookup_failure(asked, "alice")
    assert len(api.requests) - count == 3


async def test_a_rejected_secret_is_not_sent_again_until_it_changes(
    resolver: Build, api: RestApi, realm: FakeRealm, secret_file: Path, clock: ManualClock
) -> None:
    asked = await resolver()
    realm.secret = "rotated-secret"
    for _ in range(5):
        assert "unauthorized_client: Invalid client" in await lookup_failure(asked, "alice")
    assert len(api.requests) == 1
    clock.advance(61)
    await asked.resolve("alice")
    assert len(api.requests) == 2
    replace(secret_file, "rotated-secret\n")
    assert await asked.resolve("alice") == ALICE


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "\0", "é", "x" * 20_000, "s ", " s"])
async def test_a_secret_file_that_becomes_unusable(
    resolver: Build, secret_file: Path, content: str
) -> None:
    asked = await resolver()
    replace(secret_file, content)
    assert "client_secret_file cannot be used" in await lookup_failure(asked, "alice")


@pytest.mark.parametrize(
    "body",
    [
        {"access_token": ""},
        {"access_token": "a b"},
        {"access_token": "x\r\nHost: y"},
        {"access_token": "é"},
        {"access_token": 7},
        {"access_token": "x" * 10_000},
        {"access_token": "x", "expires_in": -1},
        {"access_token": "x", "expires_in": "soon"},
        {"access_token": "x", "expires_in": True},
        {"access_token": "x", "expires_in": None},
        {},
        [],
        "x",
    ],
    ids=str,
)
async def test_tokens_that_cannot_be_used(resolver: Build, api: RestApi, body: Any) -> None:
    api.fault = only("/token", Reply(200, body))
    assert "access_token" in await lookup_failure(await resolver(), "alice")


async def test_secrets_that_the_server_repeats_are_hidden(
    resolver: Build, api: RestApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = await resolver()
    guarded = GuardedResolver("corp", asked, ResolverOptions())
    echo = {"error": "invalid_request", "error_description": f"bad secret {SECRET}"}
    api.fault = only("/token", Reply(400, echo))
    failure = await lookup_failure(guarded, "alice")
    assert "bad secret …" in failure
    api.fault = lambda _: None
    await guarded.resolve("alice")
    for text in (failure, caplog.text, repr(vars(asked)), repr(asked.options)):
        assert SECRET not in text
        assert TOKEN not in text


@rows
def test_settings_that_cannot_work(
    options: Callable[..., KeycloakOptions], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        options(**settings)


async def test_a_proxy_that_does_not_connect(resolver: Build, api: RestApi) -> None:
    """It answers CONNECT like any request, and then does not pass TLS on."""
    with running_api(lambda _: Reply(200, b"hello", HTML, cut=5)) as proxy:
        outcome = await (await resolver(proxy=proxy.url)).resolve("alice")
    assert isinstance(outcome, LookupFailure)
    address = api.url.removeprefix("https://")
    assert f"cannot connect to {address} through the proxy: " in outcome.detail
    assert "(check proxy)" in outcome.detail


async def test_a_proxy(
    resolver: Build, realm: FakeRealm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets the whole address, and a proxy that refuses is named."""
    with running_api(realm.answer) as proxy:
        proxy.fault = lambda request: (
            Reply(407, {}) if not request.path.startswith(("/realms", API)) else None
        )
        url = "http://id.invalid:8080"
        asked = await resolver(url=url, proxy=proxy.url, allow_plaintext=True, ca_file=None)
        assert await asked.resolve("alice") == ALICE
        assert "allow_plaintext is on" in caplog.text
        outcome = await (await resolver(proxy=proxy.url)).resolve("alice")
    assert isinstance(outcome, LookupFailure)
    assert "the proxy refused the connection" in outcome.detail
