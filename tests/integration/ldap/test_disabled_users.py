"""`disabled_users` with a real slapd."""

from collections.abc import Iterator

import pytest
import trustme

from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ChainMode, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolver_chain import ResolverChain
from tests.integration.ldap.conftest import Build
from tests.support.change_sink import Sink, following
from tests.support.fakes.directory import FakeDirectory
from tests.support.resolvers import lookup_failure
from tests.support.servers import ldap_entries as entries
from tests.support.servers.ldap_entries import change, dn
from tests.support.servers.slapd import Slapd, running_slapd

FOREVER = "000001010000Z"
NAMES = ("alice", "expired", "later", "locked", "failed", "ended", "hidden")


@pytest.fixture(scope="module")
def source(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A server that hides the state of one account from the bind account."""
    hidden = f"access to dn.exact={dn('hidden')} attrs=shadowExpire by * none"
    with running_slapd(
        tmp_path_factory.mktemp("slapd"),
        ca,
        entries.base()
        + "".join(map(entries.person, NAMES))
        + entries.group("data", *map(dn, NAMES)),
        more_globals="moduleload syncprov",
        more_database="overlay syncprov",
        first_access=hidden,
    ) as slapd:
        for name, day in (("expired", 1), ("later", 2**31 - 1), ("hidden", 1)):
            shadow = "objectClass: shadowAccount"
            slapd.modify(change(dn(name), "add: objectClass", shadow))
            slapd.modify(change(dn(name), "add: shadowExpire", f"shadowExpire: {day}"))
        for name, time in (("locked", FOREVER), ("failed", "20260101000000Z")):
            lines = ("add: pwdAccountLockedTime", f"pwdAccountLockedTime: {time}")
            slapd.modify(change(dn(name), *lines))
        slapd.modify(change(dn("ended"), "add: pwdEndTime", "pwdEndTime: 20200101000000Z"))
        yield slapd


REFUSED = {
    "expired": "has expired (shadowExpire)",
    "locked": "is locked by an administrator (pwdAccountLockedTime)",
    "ended": "has expired (pwdEndTime)",
}


async def test_refused_users_do_not_exist(source: Slapd, resolver: Build) -> None:
    """An account that wrong passwords have locked is kept, as is one whose state is hidden."""
    opened = await resolver(source, disabled_users="refuse")
    for name in NAMES:
        outcome = await opened.resolve(name)
        if name in REFUSED:
            assert isinstance(outcome, NoSuchUser)
            assert outcome.detail == f"the user's account {REFUSED[name]}"
            assert outcome.is_final
        else:
            assert outcome == KnownUser(("data",))
    assert {*(await opened.all_users(100)).names} & {*NAMES} == {*NAMES} - REFUSED.keys()
    kept = await resolver(source)
    assert {*(await kept.all_users(100)).names} >= {*NAMES}
    for name in NAMES:
        assert await kept.resolve(name) == KnownUser(("data",))


@pytest.mark.parametrize("mode", ["first", "union"])
async def test_a_chain_asks_no_other_source(
    source: Slapd, resolver: Build, mode: ChainMode
) -> None:
    accounts = FakeDirectory(**dict.fromkeys((*NAMES, "local"), ("wheel",)))
    guards = ResolverOptions(lookup_timeout=60)
    corp = await resolver(source, disabled_users="refuse")
    members = [GuardedResolver("corp", corp, guards), GuardedResolver("os", accounts, guards)]
    chain = ResolverChain("all", members, mode)
    for name, reason in REFUSED.items():
        outcome = await chain.resolve(name)
        assert outcome == NoSuchUser(f"corp: the user's account {reason}")
    assert accounts.asked.total() == 0
    groups = ("data",) if mode == "first" else ("data", "wheel")
    assert await chain.resolve("alice") == KnownUser(groups)
    assert await chain.resolve("local") == KnownUser(("wheel",))


async def test_an_invalid_value_leaves_one_user_out(source: Slapd, resolver: Build) -> None:
    opened = await resolver(source, disabled_users="refuse")
    source.add(entries.person("odd"))
    source.modify(change(dn("odd"), "add: objectClass", "objectClass: shadowAccount"))
    too_long = "1" * 65  # an integer for slapd
    source.modify(change(dn("odd"), "add: shadowExpire", f"shadowExpire: {too_long}"))
    assert "invalid shadowExpire" in await lookup_failure(opened, "odd")
    names, missing = await opened.all_users(100)
    assert ("odd" in names, "alice" in names) == (False, True)
    assert f"lacks 1, whose lookups fail; the first is '{dn('odd')}'" in missing
    assert "invalid shadowExpire" in missing


async def test_changes_are_followed(source: Slapd, resolver: Build) -> None:
    source.add(entries.person("erin"))
    opened = await resolver(
        source, disabled_users="refuse", changes="syncrepl", changes_of_users=True, repeat_after=0
    )
    async with following(opened, sink := Sink()):
        assert isinstance(await opened.resolve("erin"), KnownUser)
        lines = ("add: pwdAccountLockedTime", f"pwdAccountLockedTime: {FOREVER}")
        source.modify(change(dn("erin"), *lines))
        await sink.until("erin")
        assert isinstance(await opened.resolve("erin"), NoSuchUser)
        source.modify(change(dn("erin"), "delete: pwdAccountLockedTime"))
        await sink.until("erin")
        assert isinstance(await opened.resolve("erin"), KnownUser)
