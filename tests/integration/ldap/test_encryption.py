"""Rows 15 and 16 of the failure matrix: certificates and StartTLS."""

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from queuegate_server.identity.resolver import LookupFailure
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import BOB, until_found
from tests.support.fakes.ldap_server import Answer, fake_directory
from tests.support.fakes.tcp_proxy import proxy_to
from tests.support.fakes.tcp_server import running_tcp
from tests.support.resolvers import lookup_failure
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import SUFFIX, Slapd, running_slapd


def expired(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert("127.0.0.1", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))


@pytest.mark.parametrize(
    ("certificate", "reason", "advice"),
    [
        (lambda ca: ca.issue_cert("other.test"), "IP address mismatch", "set tls_server_name"),
        (
            lambda ca: trustme.CA().issue_cert("127.0.0.1"),
            "unable to get local issuer",
            "lacks the CA that signed the certificate",
        ),
        (expired, "certificate has expired", "renew the server's certificate"),
    ],
)
async def test_row_15_bad_certificate_is_named_and_never_accepted(
    resolver: Build,
    ca: trustme.CA,
    tmp_path: Path,
    certificate: Callable[[trustme.CA], trustme.LeafCert],
    reason: str,
    advice: str,
) -> None:
    with running_slapd(
        tmp_path / "bad", ca, entries.standard(), certificate=certificate(ca)
    ) as slapd:
        for url in (slapd.url, slapd.tls_url):
            opened = await resolver(url)
            failure = await lookup_failure(opened, "bob")
            assert reason in failure
            assert advice in failure
            assert (url, "bind") not in opened.statistics.steps
            unverified = await resolver(url, verify_certificate=False)
            assert await unverified.resolve("bob") == BOB


async def test_row_15_name_for_the_certificate_can_be_given(
    resolver: Build, ca: trustme.CA, tmp_path: Path
) -> None:
    leaf = ca.issue_cert("ldap.corp.test")
    with running_slapd(tmp_path / "named", ca, entries.standard(), certificate=leaf) as slapd:
        opened = await resolver(slapd, tls_server_name="ldap.corp.test")
        assert await opened.resolve("bob") == BOB


async def test_row_15_other_ca_file_is_used_without_a_restart(
    resolver: Build, own_directory: Slapd, ca: trustme.CA, tmp_path: Path
) -> None:
    file = tmp_path / "trusted.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    opened = await resolver(own_directory, ca_file=file)
    assert isinstance(await opened.resolve("bob"), LookupFailure)
    ca.cert_pem.write_to_path(str(file))
    await until_found(opened)


async def test_row_15_old_tls_is_refused(resolver: Build, directory: Slapd, ca: trustme.CA) -> None:
    old = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    ca.issue_cert("127.0.0.1").configure_cert(old)
    async with proxy_to(directory.port, old) as proxy:
        assert await (await resolver(proxy.tls_url)).resolve("bob") == BOB
        failure = await lookup_failure(await resolver(proxy.tls_url, tls_min_version="1.3"), "bob")
        assert "TLS handshake" in failure


async def test_row_15_disabled_verification_is_logged(
    resolver: Build, directory: Slapd, caplog: pytest.LogCaptureFixture
) -> None:
    await resolver(directory, verify_certificate=False)
    assert "verify_certificate is off" in caplog.text


async def test_row_16_refused_starttls_ends_before_the_bind(resolver: Build) -> None:
    async with fake_directory(lambda _: Answer()) as fake:
        assert "refused StartTLS" in await lookup_failure(await resolver(fake.url), "bob")
        assert fake.binds == 0


async def test_row_16_server_without_tls(resolver: Build, ca: trustme.CA, tmp_path: Path) -> None:
    with running_slapd(tmp_path / "plain", ca, entries.standard(), tls=False) as slapd:
        assert "StartTLS" in await lookup_failure(await resolver(slapd), "bob")


async def test_port_that_speaks_no_ldap(resolver: Build) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await reader.read()

    async with running_tcp(greet) as port:
        for scheme, part in (("ldap", "does not speak LDAP"), ("ldaps", "TLS")):
            failure = await lookup_failure(await resolver(f"{scheme}://127.0.0.1:{port}"), "bob")
            assert part in failure


async def test_client_certificate(
    options: Callable[..., LdapOptions], ca: trustme.CA, tmp_path: Path
) -> None:
    leaf = ca.issue_cert("queuegate@lab.test", common_name="queuegate")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    # trustme's subject is CN, OU, O; the server maps it to an entry that may read.
    machine = f"cn=queuegate,ou=machines,{SUFFIX}"
    more = f"TLSVerifyClient demand\nauthz-regexp ^.*cn=queuegate.*$ {machine}"
    own = {
        "bind": "external",
        "bind_dn": None,
        "bind_password_file": None,
        "cert_file": certificate,
        "key_file": key,
    }
    with running_slapd(tmp_path / "external", ca, entries.standard(), more_globals=more) as slapd:
        for given, expected in (
            (own, BOB),
            ({"cert_file": certificate, "key_file": key}, BOB),
            ({}, None),
        ):
            resolver = LdapResolver(options(slapd, **given))
            await resolver.open()
            outcome = await resolver.resolve("bob")
            await resolver.close()
            assert outcome == expected or (expected is None and isinstance(outcome, LookupFailure))
