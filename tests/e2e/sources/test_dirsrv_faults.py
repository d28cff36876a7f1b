"""A 389 Directory Server, set up like that of FreeIPA, whose changes cannot be followed."""

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuegate_server.identity.resolver import CannotFollow, KnownUser
from queuegate_server.identity.resolvers.ldap import sync_follower
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from queuegate_server.identity.resolvers.ldap.sync_messages import SYNC_REQUEST
from tests.e2e.sources.conftest import BuildLdap
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.servers import dirsrv
from tests.support.servers.dirsrv import Dirsrv, group, member, running_dirsrv, user, user_dn
from tests.support.servers.ldap_entries import change

pytestmark = [pytest.mark.usefixtures("no_task_left"), pytest.mark.timeout(300)]


ENTRIES = "".join(map(user, ("alice", "bob", "carol"))) + "".join(
    group(name, user_dn("alice")) for name in ("data", "ops", "eng")
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dirsrv]:
    """A server whose configuration each test restores."""
    with running_dirsrv(tmp_path_factory.mktemp("dirsrv"), ENTRIES) as server:
        yield server


async def why_not(resolver: LdapResolver) -> str:
    """Return why a resolver cannot follow its source. Lookups work."""
    fault = await why_not_followed(resolver)
    assert isinstance(await resolver.resolve("alice"), KnownUser)
    return fault


async def test_a_restart(tmp_path: Path, ldap_resolver: BuildLdap) -> None:
    """A position in the changelog proves nothing, so everybody's groups are dropped."""
    with running_dirsrv(tmp_path / "dirsrv", ENTRIES) as server:
        resolver = await ldap_resolver(server)
        sink = Sink()
        async with following(resolver, sink) as task:
            before = sink.position
            assert before is not None
            server.stop()
            with pytest.raises(CannotFollow, match=r"closed the connection|lost"):
                await task
        [cookie] = json.loads(before)["cookies"].values()
        address, search, number = base64.b64decode(cookie).split(b"#")
        assert address == f"localhost:{server.port}".encode()
        assert search.startswith(f"{dirsrv.SERVICE}:{dirsrv.GROUPS}:(".lower().encode())
        # FreeIPA's changelog does not contain groups.
        assert number == b"0"
        server.start()
        server.modify(member("data", "add", user_dn("bob")))
        again = Sink(before)
        while not again.count:
            async with following(resolver, again):
                await asyncio.sleep(0.05)
        assert again.reports == [ALL]
        assert again.position == before


async def test_a_server_without_the_plugin(tmp_path: Path, ldap_resolver: BuildLdap) -> None:
    with running_dirsrv(
        tmp_path / "dirsrv", ENTRIES, without=[dirsrv.CONTENT_SYNC, dirsrv.RETRO_CHANGELOG]
    ) as server:
        fault = await why_not(await ldap_resolver(server))
    assert fault.startswith("the server does not support content synchronization (RFC 4533) (enab")


async def test_an_account_without_the_right_to_the_control(
    source: Dirsrv, ldap_resolver: BuildLdap
) -> None:
    feature = f"oid={SYNC_REQUEST},cn=features,cn=config"
    all_users = (
        '(targetattr != "aci")(version 3.0; acl "sync"; allow (read, search) '
        'userdn = "ldap:///all";)'
    )
    source.modify(change(feature, "delete: aci"))
    fault = await why_not(await ldap_resolver(source))
    source.modify(change(feature, "add: aci", f"aci: {all_users}"))
    assert "Insufficient access (50)" in fault
    assert f"the aci of {feature}" in fault
    async with following(await ldap_resolver(source), sink := Sink()):
        assert sink.count


@pytest.mark.parametrize("limit", ["nsSizeLimit", "nsLookThroughLimit"])
async def test_a_limit_that_the_server_does_not_mention(
    source: Dirsrv, ldap_resolver: BuildLdap, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_follower, "SILENCE_SECONDS", 1.0)
    source.modify(change(dirsrv.SERVICE, f"replace: {limit}", f"{limit}: 2"))
    fault = await why_not(await ldap_resolver(source))
    silence = "the server has not sent all entries, and has sent nothing for 1 s (raise its"
    assert fault.startswith(silence)
    source.modify(change(dirsrv.SERVICE, f"replace: {limit}", f"{limit}: -1"))
    async with following(await ldap_resolver(source), sink := Sink()):
        assert sink.count


async def test_too_many_followers(tmp_path: Path, ldap_resolver: BuildLdap) -> None:
    """The server follows ten searches at most, if it is not configured otherwise."""
    with running_dirsrv(tmp_path / "dirsrv", ENTRIES) as server:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(10):
                await stack.enter_async_context(
                    following(await ldap_resolver(server), sink := Sink())
                )
                assert sink.count
            fault = await why_not(await ldap_resolver(server))
        assert "Too many active synchronization sessions" in fault
        plugin = f"cn={dirsrv.CONTENT_SYNC},cn=plugins,cn=config"
        server.modify(change(plugin, "add: nsslapd-pluginarg0", "nsslapd-pluginarg0: 11"))
        server.stop()
        server.start()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(11):
                await stack.enter_async_context(
                    following(await ldap_resolver(server), sink := Sink())
                )
                assert sink.count
