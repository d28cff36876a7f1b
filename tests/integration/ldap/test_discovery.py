"""Servers from DNS, with a name server of the test."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from queuegate_server.identity.resolver import LookupFailure
from queuegate_server.identity.resolvers.ldap import pool
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl, discover_servers
from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault, SetupFault
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import until_found
from tests.support.servers.slapd import Slapd

RECORDS = {
    "_ldap._tcp.corp.test.": ["20 0 389 late.corp.test.", "10 0 1389 early.corp.test."],
    "_ldaps._tcp.corp.test.": ["0 0 636 only.corp.test."],
    "_ldap._tcp.none.test.": ["0 0 0 ."],
}


class NameServer(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.silent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.silent:
            return
        query = dns.message.from_wire(data)
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        name = query.question[0].name.to_text()
        if name in RECORDS:
            reply.answer.append(dns.rrset.from_text(name, 60, "IN", "SRV", *RECORDS[name]))
        else:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        self.transport.sendto(reply.to_wire(), addr)


@pytest.fixture
async def name_server() -> AsyncIterator[tuple[NameServer, dns.asyncresolver.Resolver]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = transport.get_extra_info("sockname")[1]
    yield server, resolver
    transport.close()


Asked = tuple[NameServer, dns.asyncresolver.Resolver]


async def test_the_best_server_comes_first(name_server: Asked) -> None:
    _, resolver = name_server
    found = await discover_servers("corp.test", encrypted=False, timeout=30, resolver=resolver)
    assert found == (
        ServerUrl("ldap", "early.corp.test", 1389),
        ServerUrl("ldap", "late.corp.test", 389),
    )
    found = await discover_servers("corp.test", encrypted=True, timeout=30, resolver=resolver)
    assert found == (ServerUrl("ldaps", "only.corp.test", 636),)


@pytest.mark.parametrize("domain", ["none.test", "nowhere.test"])
async def test_a_domain_without_servers_is_a_fault_of_the_settings(
    name_server: Asked, domain: str
) -> None:
    _, resolver = name_server
    with pytest.raises(SetupFault, match="DNS has no servers"):
        await discover_servers(domain, encrypted=False, timeout=30, resolver=resolver)


async def test_dns_that_does_not_answer_is_given_up(name_server: Asked) -> None:
    server, resolver = name_server
    server.silent = True
    with pytest.raises(ServerFault, match="within 0"):
        await discover_servers("corp.test", encrypted=False, timeout=0.2, resolver=resolver)


async def test_lookups_go_to_the_discovered_servers(
    resolver: Build, directory: Slapd, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = [
        ServerFault("DNS is down"),
        (ServerUrl("ldap", "127.0.0.1", directory.port),),
    ]

    async def discovered(domain: str, *, encrypted: bool, timeout: float) -> object:  # noqa: ASYNC109
        assert (domain, encrypted, timeout) == ("corp.test", False, 30)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pool, "discover_servers", discovered)
    opened = await resolver(directory, urls=None, discover="corp.test", retry_after=0.05)
    await asyncio.sleep(0)
    assert isinstance(await opened.resolve("bob"), LookupFailure)
    await until_found(opened)
    assert answers == []
