"""Lists of all users: guards, chains, local resolvers and the host's accounts."""

import pwd
from collections.abc import Collection
from pathlib import Path

import pytest

from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.members import CannotListUsers, UserListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolver_chain import ResolverChain
from queuegate_server.identity.resolvers.local import NoResolver, StaticTableResolver
from queuegate_server.identity.resolvers.nss import NssResolver, account_names
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory

OPTIONS = ResolverOptions()


class Lister(FakeDirectory):
    """Lists the users it is given; without any it fails."""

    def __init__(self, *users: str) -> None:
        super().__init__()
        self.listed = users

    async def all_users(self, limit: int) -> Collection[str]:
        if not self.listed:
            raise ValueError(limit)
        if len(self.listed) > limit:
            raise CannotListUsers(f"more than {limit}")
        return self.listed


def guarded(resolver: object, name: str = "corp") -> GuardedResolver:
    return GuardedResolver(name, resolver, OPTIONS, clock=ManualClock())  # type: ignore[arg-type]


async def why(resolver: GuardedResolver | ResolverChain, limit: int = 10) -> str:
    with pytest.raises(CannotListUsers) as caught:
        await resolver.all_users(limit)
    return str(caught.value)


async def test_a_list_is_whole_or_says_why_not() -> None:
    assert [*(await guarded(Lister("sue", "bob")).all_users(2)).names] == ["sue", "bob"]
    assert await why(guarded(Lister("sue", "bob")), 1) == "resolver 'corp': more than 1"
    assert await why(guarded(Lister())) == "the resolver 'corp' failed: ValueError"
    assert await why(guarded(FakeDirectory())) == "the resolver 'corp' cannot list its users"


@pytest.mark.parametrize("mode", ["first", "union"])
async def test_a_chain_lists_the_users_of_all(mode: str) -> None:
    def chain(*resolvers: GuardedResolver) -> ResolverChain:
        return ResolverChain("both", resolvers, mode)  # type: ignore[arg-type]

    one, other = guarded(Lister("sue", "bob"), "one"), guarded(Lister("bob", "ann"), "other")
    assert [*(await chain(one, other).all_users(3)).names] == ["sue", "bob", "ann"]
    assert await why(chain(one, other), 2) == "there are more than 2 users"
    assert await why(chain(one, guarded(Lister(), "down"))) == (
        "the resolver 'down' failed: ValueError"
    )


async def test_a_chain_says_which_resolver_misses_users() -> None:
    class Misses(FakeDirectory):
        async def all_users(self, _limit: int) -> UserListing:
            return UserListing(["ann"], "it lacks 2")

    chain = ResolverChain("all", [guarded(Lister("sue"), "one"), guarded(Misses(), "two")], "first")
    listing = await chain.all_users(10)
    assert ([*listing.names], listing.missing) == (["sue", "ann"], "resolver 'two': it lacks 2")


async def test_local_resolvers() -> None:
    table = StaticTableResolver(OPTIONS)
    users = (await guarded(table).all_users(10)).names
    assert [*users] == [f"testuser{number}" for number in (1, 2, 3, 4)]
    for user in users:
        assert isinstance(await table.resolve(user), KnownUser)
    assert "every name counts as a user" in await why(guarded(NoResolver(OPTIONS)))


async def test_accounts_of_the_host(tmp_path: Path) -> None:
    (nsswitch := tmp_path / "nsswitch.conf").write_text("passwd: files\ngroup: files\n")
    assert account_names(nsswitch) == [account.pw_name for account in pwd.getpwall()]
    nsswitch.write_text("passwd: files sss\n")
    with pytest.raises(CannotListUsers, match="also uses sss, which might not list all users"):
        account_names(nsswitch)
    resolver = NssResolver(ResolverOptions())
    assert await why(guarded(resolver), 0)
    await resolver.close()
