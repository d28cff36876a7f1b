"""Secrets of identity providers appear in no log, error, metric or page, even if a provider, or a
proxy in front of it, repeats them.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
import trustme
import yaml
from click.testing import CliRunner

import queuegate
from queuegate_server.cli.source_check import source_check
from tests.support.atomic_files import replace
from tests.support.fakes import graph, keycloak, okta
from tests.support.fakes.assertions import key_in
from tests.support.fakes.graph import FakeTenant
from tests.support.fakes.keycloak import FakeRealm
from tests.support.fakes.okta import FakeOrganization
from tests.support.fakes.rest_api import Reply, Request, RestApi, running_api
from tests.support.servers import with_constants
from tests.support.servers.admin_port import all_pages, ops_address
from tests.support.servers.queuegate_server import running_server

KINDS = ("keycloak", "entra", "entra_federated", "okta", "okta_app")
SECRETS = {
    "keycloak": (keycloak.SECRET, keycloak.TOKEN),
    "entra": (graph.SECRET, graph.TOKEN),
    "entra_federated": (graph.ASSERTION, graph.TOKEN),
    "okta": (okta.TOKEN,),
    "okta_app": (okta.ACCESS_TOKEN,),
}
FILES = {
    "keycloak": "client_secret_file",
    "entra": "client_secret_file",
    "entra_federated": "federated_token_file",
    "okta": "token_file",
    "okta_app": "private_key_file",
}
HTML = "text/html"
PART = 12
"""The number of characters of a secret that are searched for."""
_URL_SAFE = str.maketrans("+/", "-_")


def credentials(request: Request) -> str:
    """Return all that the request contains that is secret."""
    own = (request.form.get(key, "") for key in ("client_secret", "client_assertion"))
    return " ".join((request.headers.get("Authorization", ""), *own))


def each_byte(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as in a URL": lambda text: quote(text, safe=""),
    "byte by byte as in a URL": each_byte,
    "in Base64": base64_of,
    "in Base64 in a URL": lambda text: quote(base64_of(text), safe=""),
}


def readings(text: str) -> str:
    """Return a text as it is, without escapes, and with what it holds in Base64."""
    plain = unquote(text)
    runs = [run for each in (text, plain) for run in re.findall(r"[\w+/-]{8,}", each, re.ASCII)]
    decoded = [
        base64.urlsafe_b64decode(part + "A" * (-len(part) % 4))
        for run in runs
        for part in (run.translate(_URL_SAFE)[start:] for start in range(4))
    ]
    return "\n".join((text, plain, *(each.decode("latin-1") for each in decoded)))


def in_error(
    status: int, *keys: str, encode: Callable[[str], str] = str
) -> Callable[[Request], Reply]:
    """Return a reply that repeats the credentials below these keys."""

    def reply(request: Request) -> Reply:
        body: Any = encode(credentials(request))
        for key in reversed(keys):
            body = {key: body}
        return Reply(status, body)

    return reply


ENCODED: dict[str, Callable[[Request], Reply]] = {
    f"{'.'.join(keys)} {name}": in_error(400, *keys, encode=encode)
    for name, encode in ENCODINGS.items()
    for keys in (("error",), ("error_description",), ("errorSummary",))
}
REPEATS: dict[str, Callable[[Request], Reply]] = {
    **{
        f"{'.'.join(keys)} of {status}": in_error(status, *keys)
        for status in (400, 401, 403, 404, 500)
        for keys in (("error",), ("error_description",), ("error", "code"), ("errorCode",))
    },
    **ENCODED,
    "a page": lambda request: Reply(500, credentials(request).encode(), {"Content-Type": HTML}),
    "the type of the content": lambda request: Reply(
        200, b"", {"Content-Type": credentials(request).strip().replace(" ", "/", 1)}
    ),
    "a redirection": lambda request: Reply(302, b"", {"Location": f"/{credentials(request)}"}),
    "a pause": lambda request: Reply(429, {}, {"Retry-After": credentials(request)}),
    "malformed JSON": lambda request: Reply(200, b"[" + credentials(request).encode()),
    "another shape": lambda request: Reply(200, [credentials(request)]),
}


@contextmanager
def running_providers(ca: trustme.CA) -> Iterator[Mapping[str, RestApi]]:
    realm, tenant, organization = FakeRealm(), FakeTenant(), FakeOrganization()
    federated = FakeTenant()
    organization.accepts = lambda _: True
    realm.join("alice")
    with (
        running_api(realm.answer, ca) as keycloak_api,
        running_api(tenant.answer, ca) as entra_api,
        running_api(federated.answer, ca) as federated_api,
        running_api(organization.answer, ca) as okta_api,
        running_api(organization.answer, ca) as app_api,
    ):
        tenant.url, organization.url = entra_api.url, okta_api.url
        federated.url = federated_api.url
        apis = (keycloak_api, entra_api, federated_api, okta_api, app_api)
        yield dict(zip(KINDS, apis, strict=True))


def settings(providers: Mapping[str, RestApi], ca_file: Path, folder: Path) -> Path:
    """Write the settings of a server with a partition for each provider."""
    urls = {kind: api.url for kind, api in providers.items()}
    given: dict[str, dict[str, Any]] = {
        "keycloak": keycloak.settings(urls["keycloak"]),
        "entra": graph.settings(urls["entra"]),
        "entra_federated": graph.settings(urls["entra_federated"]),
        "okta": {"url": urls["okta"]},
        "okta_app": {"url": urls["okta_app"], "client_id": okta.CLIENT},
    }
    policies = []
    for kind, options in given.items():
        secret = folder / f"{kind}-secret"
        if kind == "okta_app":
            key_in(secret)
        else:
            replace(secret, SECRETS[kind][0])
        secret.chmod(0o600)
        options[FILES[kind]] = str(secret)
        options |= {
            "type": kind.partition("_")[0],
            "ca_file": str(ca_file),
        }
        policy = folder / f"{kind}.yaml"
        policy.write_text(
            f"partitions: [{{name: {kind}, queues: [{{name: root, submitacl: ' team'}}]}}]"
        )
        policies.append({"path": str(policy)})
    file = folder / "queuegate.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "policies": policies,
                "resolvers": given,
                "partitions": {
                    kind: {"resolver": kind, "cache": {"failure_ttl": "1ms"}} for kind in given
                },
                "callers": {"loopback": {"roles": ["check", "read", "admin", "sync"]}},
                "audit": {"path": str(folder / "audit.log")},
                "ops": {"listen": "127.0.0.1:0"},
                "console": {"enabled": True},
                "log": {"level": "debug"},
            }
        )
    )
    return file


def test_secrets_that_a_provider_repeats(ca: trustme.CA, ca_file: Path, tmp_path: Path) -> None:
    shown: list[str] = []
    with running_providers(ca) as providers:
        config = settings(providers, ca_file, tmp_path)
        hasty = {
            **with_constants.NEVER_PAUSED,
            "identity.rest.access_tokens.REJECTED_SECONDS": 0.05,
        }
        environment = with_constants.environment(hasty)
        with running_server("--config", str(config), environment=environment) as server:
            address = ops_address(server)
            with queuegate.Client(
                server.address, timeout=30, retry=queuegate.Retry(attempts=1)
            ) as client:
                for number, repeat in enumerate((None, *REPEATS.values())):
                    for kind, api in providers.items():
                        api.fault = repeat or (lambda _: None)
                        try:
                            user = f"user{number}@example.com"
                            shown.append(repr(client.check(user, "root", partition=kind)))
                        except queuegate.QueuegateError as error:
                            shown.append(str(error))
            shown.append(all_pages(address, *KINDS))
            assert all(api.requests for api in providers.values())
            forms = [each.form for each in providers["okta_app"].requests]
            assertions = {each["client_assertion"] for each in forms if each}
        shown += [json.dumps(server.logs), (tmp_path / "audit.log").read_text()]
    assert len(shown) > len(REPEATS)
    shown = [readings(text) for text in shown]
    assert assertions
    for secrets in (*SECRETS.values(), assertions):
        for secret in secrets:
            # Long answers are quoted in part.
            assert not [text for text in shown if secret[:PART] in text]


@pytest.mark.parametrize("kind", KINDS)
def test_source_check_shows_no_secret(
    kind: str, ca: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    """It shows what a provider has answered, as a server's log does every now and then."""
    with running_providers(ca) as providers:
        config = settings(providers, ca_file, tmp_path)
        command = ["--config", str(config), kind, "user@example.com"]
        shown = []
        for repeat in ENCODED.values():
            providers[kind].fault = repeat
            done = CliRunner().invoke(source_check, command)
            assert "FAIL" in done.output
            shown.append(readings(done.output))
        forms = [each.form for each in providers[kind].requests]
    sent = {each["client_assertion"] for each in forms if "client_assertion" in each}
    for secret in {*SECRETS[kind], *sent}:
        assert not [text for text in shown if secret[:PART] in text]


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
def test_the_readings_show_secrets(encode: Callable[[str], str]) -> None:
    """Otherwise, the test above would show nothing about encodings."""
    for kind in KINDS:
        for secret in SECRETS[kind]:
            for before in ("", "x", "Bearer"):
                assert secret in readings(f"<{encode(f'{before} {secret}')}>")


@pytest.mark.parametrize("kind", KINDS)
def test_the_secrets_are_sent(kind: str, ca: trustme.CA, ca_file: Path, tmp_path: Path) -> None:
    """Otherwise, the test above would show nothing."""
    with running_providers(ca) as providers:
        config = settings(providers, ca_file, tmp_path)
        with (
            running_server("--config", str(config)) as server,
            queuegate.Client(
                server.address, timeout=30, retry=queuegate.Retry(attempts=1)
            ) as client,
        ):
            client.check("nobody@example.com", "root", partition=kind)
        sent = "".join(map(credentials, providers[kind].requests))
    assert all(secret in sent for secret in SECRETS[kind])
