"""A directory that all read-only tests share, and resolvers that are closed at the end."""

from asyncio import sslproto
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.support.constants import LDAP, take_constants
from tests.support.resolvers import Open
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import GROUPS, PASSWORD, PEOPLE, SERVICE, Slapd, running_slapd

Build = Callable[..., Awaitable[LdapResolver]]


@pytest.fixture(autouse=True)
def strict_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let abort() of a TLS transport that was closed twice raise, as before Python 3.11.3."""
    transport: Any = sslproto._SSLProtocolTransport
    original = transport.abort

    def abort(self: Any) -> None:
        if self._ssl_protocol is None:
            raise AttributeError("'NoneType' object has no attribute '_abort'")
        original(self)

    monkeypatch.setattr(transport, "abort", abort)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture(scope="session")
def directory(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A server that no test disturbs."""
    with running_slapd(tmp_path_factory.mktemp("slapd"), ca, entries.standard()) as slapd:
        yield slapd


@pytest.fixture
def own_directory(ca: trustme.CA, tmp_path: Path) -> Iterator[Slapd]:
    """A server that the test may kill, freeze and restart."""
    with running_slapd(tmp_path / "slapd", ca, entries.standard()) as slapd:
        yield slapd


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


@pytest.fixture
def options(
    ca_file: Path, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LdapOptions]:
    """Build options for a server of ours; arguments override them, and change constants."""

    def build(slapd: Slapd | str, **more: Any) -> LdapOptions:
        url = slapd if isinstance(slapd, str) else slapd.url
        given = {
            "urls": [url],
            "ca_file": ca_file,
            "bind_dn": SERVICE,
            "bind_password_file": password_file,
            "user_base": PEOPLE,
            "group_base": GROUPS,
            # A busy machine must not decide the outcome.
            "operation_timeout": 30,
            "connect_timeout": 30,
            "retry_after": 0.1,
        }
        given = {key: value for key, value in (given | more).items() if value is not None}
        return LdapOptions.model_validate(take_constants(given, LDAP, monkeypatch))

    return build


@pytest.fixture
def resolver(options: Callable[..., LdapOptions], opened: Open) -> Build:
    """Build and open resolvers; they are closed at the end."""

    async def build(slapd: Slapd | str, **more: Any) -> LdapResolver:
        return await opened(LdapResolver(options(slapd, **more)))

    return build
