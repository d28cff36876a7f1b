"""Directories for the pages about them: slapd with entries like those of OpenLDAP or FreeIPA, a KDC
beside it, a fake of Active Directory, and a service with an interface of its own.
"""

import asyncio
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, TypeVar

import trustme

from tests.e2e.documentation.reader import CHECKOUT, Reader
from tests.support.fakes import active_directory as domain
from tests.support.fakes import graph
from tests.support.fakes import okta as okta_fake
from tests.support.fakes.keycloak import SECRET, FakeRealm
from tests.support.fakes.ldap_server import fake_directory
from tests.support.fakes.rest_api import running_api
from tests.support.servers import ldap_entries as entries
from tests.support.servers.kdc import OURS, REALM, running_kdc
from tests.support.servers.redis_server import running_redis
from tests.support.servers.slapd import PASSWORD, SERVICE, SUFFIX, running_slapd

T = TypeVar("T")

_GROUP_ID: Final = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
_EXAMPLE: Final = "dc=example,dc=com"
_IPA_ACCOUNTS: Final = f"cn=accounts,{SUFFIX}"
_IPA_SCHEMA: Final = "objectclass ( 1.3.6.1.4.1.32473.1 NAME 'ipaUserGroup' SUP top AUXILIARY )"


@contextmanager
def openldap(reader: Reader) -> Iterator[None]:
    """alice is in `analytics`, which is in `data`, and in the POSIX group `gpu`."""
    ldif = (
        entries.base()
        + entries.person("alice", 500)
        + entries.group("analytics", entries.dn("alice"))
        + entries.group("data", entries.group_dn("analytics"))
        + entries.posix_group("gpu", 501, "alice")
    )
    with _slapd(reader, "ldap1.example.com", ldif):
        yield


@contextmanager
def redis(reader: Reader) -> Iterator[None]:
    """A Redis at redis.example.com with TLS, and the account of the page."""
    page = CHECKOUT / "docs" / "how-to" / "run-a-fleet.md"
    (rule,) = re.findall(r"^user (queuegate .*)$", page.read_text(), re.MULTILINE)
    _file(reader, "etc/queuegate/redis-password", "PASSWORD\n")
    with running_redis(
        reader.folder / ".redis", ca=_authority(reader), more=["--user", *rule.split()]
    ) as server:
        reader.port(6379, server.port)
        # The machine of the tests may be busy.
        reader.replaced["read_timeout: 20ms"] = "read_timeout: 10s"
        reader.replaced["rediss://redis.example.com:6379"] = "rediss://127.0.0.1:6379"
        yield


@contextmanager
def freeipa(reader: Reader) -> Iterator[None]:
    """alice is in `analytics`, which is in `data`; FreeIPA's plugin shows both in memberOf."""
    users, groups = (f"cn={name},{_IPA_ACCOUNTS}" for name in ("users", "groups"))
    alice = f"uid=alice,{users}"
    ldif = (
        entries.base()
        + "".join(
            entries.entry(dn, ("objectClass", "organizationalRole"), ("cn", _name(dn)))
            for dn in (_IPA_ACCOUNTS, users, groups)
        )
        + entries.person("alice", where=users)
        + "".join(
            entries.group(name, alice, where=groups).replace(
                "\n", "\nobjectClass: ipaUserGroup\n", 1
            )
            for name in ("ipausers", "analytics", "data")
        )
    )
    account = f"uid=queuegate,cn=sysaccounts,cn=etc,{_EXAMPLE}"
    with _slapd(reader, "ipa1.example.com", ldif, account, more_globals=_IPA_SCHEMA):
        yield


@contextmanager
def kerberos(reader: Reader) -> Iterator[None]:
    """The directory of OpenLDAP, whose service account is a principal of a realm."""
    sasl = (
        f"sasl-host 127.0.0.1\nsasl-realm {REALM}\n"
        f"authz-regexp uid=queuegate,cn={REALM},cn=gssapi,cn=auth {SERVICE}\n"
    )
    ldif = (
        entries.base() + entries.person("alice") + entries.group("analytics", entries.dn("alice"))
    )
    with running_kdc(reader.folder / ".kdc") as kdc:
        keytab = kdc.keytab(OURS).read_bytes()
        _file(reader, "etc/queuegate/queuegate.keytab", "").write_bytes(keytab)
        service = {"KRB5_KTNAME": str(kdc.keytab(f"ldap/127.0.0.1@{REALM}"))}
        reader.variables |= kdc.environment
        reader.replaced["EXAMPLE.COM"] = REALM
        with _slapd(
            reader,
            "ldap1.example.com",
            ldif,
            more_globals=sasl,
            environment=kdc.environment | service,
        ):
            yield


@contextmanager
def keycloak(reader: Reader) -> Iterator[None]:
    """alice is in `/eng/backend` and `/ops`."""
    realm = FakeRealm()
    realm.join("alice", ("eng", "backend"), ("ops",))
    _file(reader, "etc/queuegate/keycloak-secret", f"{SECRET}\n").chmod(0o600)
    with running_api(realm.answer, _authority(reader)) as api:
        reader.port(8443, int(api.url.rpartition(":")[2]))
        reader.replaced["https://id.example.com"] = "https://127.0.0.1:8443"
        yield


@contextmanager
def entra(reader: Reader) -> Iterator[None]:
    """alice@example.com is in two security groups, of which one has the id on the page."""
    tenant = graph.FakeTenant()
    tenant.add_group("data")
    tenant.groups[_GROUP_ID] = tenant.groups.pop(graph.identity("data")) | {"id": _GROUP_ID}
    tenant.add_user("alice@example.com", "ops")
    tenant.member_of[graph.identity("alice@example.com")].insert(0, _GROUP_ID)
    _file(reader, "etc/queuegate/entra-secret", f"{graph.SECRET}\n").chmod(0o600)
    with running_api(tenant.answer, _authority(reader)) as api:
        tenant.url = api.url
        reader.port(8443, int(api.url.rpartition(":")[2]))
        page = "https://127.0.0.1:8443"
        own = f"login_url: {page}\n    graph_url: {page}\n    ca_file: /etc/queuegate/ca.pem"
        reader.replaced["tenant: example.com"] = f"tenant: {graph.TENANT}\n    {own}"
        yield


@contextmanager
def okta(reader: Reader) -> Iterator[None]:
    """alice@example.com is in `Everyone` and `data`."""
    organization = okta_fake.FakeOrganization()
    organization.add_user("alice@example.com", "Everyone", "data")
    _file(reader, "etc/queuegate/okta-token", f"{okta_fake.TOKEN}\n").chmod(0o600)
    with running_api(organization.answer, _authority(reader)) as api:
        organization.url = api.url
        reader.port(8443, int(api.url.rpartition(":")[2]))
        own = "https://127.0.0.1:8443\n    ca_file: /etc/queuegate/ca.pem"
        reader.replaced["https://example.okta.com"] = own
        yield


@contextmanager
def active_directory(reader: Reader) -> Iterator[None]:
    """Alice is in `analytics`, which is in `data`; her primary group is `Domain Users`."""
    alice = domain.Domain()
    alice.names, alice.chain = ["analytics"], ("analytics", "data")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _authority(reader).issue_cert("127.0.0.1").configure_cert(context)
    _file(reader, "etc/queuegate/ldap-password", f"{PASSWORD}\n")
    with _in_thread(fake_directory(alice, context)) as fake:
        _stands_for(
            reader, "dc1.example.com", fake.port, {_EXAMPLE.replace("dc", "DC"): domain.BASE}
        )
        yield


@contextmanager
def people(reader: Reader) -> Iterator[None]:
    """A service of the reader on 127.0.0.1:8080, and `pip` for a package that asks it.

    The package goes into a folder of the reader.
    """
    packages = reader.folder / ".packages"
    reader.variables["PYTHONPATH"] = str(packages)
    reader.replaced["pip install ."] = (
        "python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation"
        f" --target {packages} ."
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), _People) as server:
        reader.port(8080, server.server_port)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


class _People(BaseHTTPRequestHandler):
    """Knows alice, does not know ghost, and fails for others."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        status, answer = {
            "/groups?user=alice": (200, {"groups": ["staff", "data"]}),
            "/groups?user=ghost": (404, {"error": "no such user"}),
        }.get(self.path, (500, {}))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


@contextmanager
def _slapd(
    reader: Reader,
    host: str,
    ldif: str,
    account: str = f"cn=queuegate,{_EXAMPLE}",
    *,
    more_globals: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run one for the host of a page."""
    ca = _authority(reader)
    _file(reader, "etc/queuegate/ldap-password", f"{PASSWORD}\n")
    with running_slapd(
        reader.folder / ".slapd", ca, ldif, more_globals=more_globals, environment=environment
    ) as slapd:
        _stands_for(reader, host, slapd.tls_port, {account: SERVICE, _EXAMPLE: SUFFIX})
        yield


def _stands_for(reader: Reader, host: str, port: int, names: Mapping[str, str]) -> None:
    reader.port(636, port)
    reader.replaced |= {f"ldaps://{host}:636": "ldaps://127.0.0.1:636", **names}


@contextmanager
def _in_thread(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter a manager in an event loop of its own."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        entered = runner.run(manager.__aenter__())
        thread = Thread(target=loop.run_forever)
        thread.start()
        try:
            yield entered
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            runner.run(manager.__aexit__(None, None, None))


def _name(dn: str) -> str:
    return dn.partition(",")[0].partition("=")[2]


def _authority(reader: Reader) -> trustme.CA:
    """Return an authority that the reader trusts, beside those before it."""
    ca = trustme.CA()
    path = reader.folder / "etc/queuegate/ca.pem"
    trusted = path.read_text() if path.exists() else ""
    _file(reader, "etc/queuegate/ca.pem", trusted + ca.cert_pem.bytes().decode())
    return ca


def _file(reader: Reader, name: str, text: str) -> Path:
    path = reader.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
