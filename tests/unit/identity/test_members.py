"""Lists of the members of groups: bounds, guards, chains, local resolvers and the host's groups."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from queuegate_server.identity.guarded_resolver import BREAKER_FAILURES, GuardedResolver
from queuegate_server.identity.members import ListingLimit, MemberListing
from queuegate_server.identity.options import ChainMode, ResolverOptions
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.resolver_chain import ResolverChain
from queuegate_server.identity.resolvers.local import NoResolver, StaticTableResolver
from queuegate_server.identity.resolvers.nss import (
    NssResolver,
    group_members,
    look_up_account,
)
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory

OPTIONS = ResolverOptions()


class Lister(FakeDirectory):
    """Lists what it is given, and fails for the group `broken`."""

    def __init__(self, **members: tuple[str, ...]) -> None:
        super().__init__()
        self.listed = members

    async def members(self, listing: MemberListing) -> None:
        for name in listing.pending:
            if name == "broken":
                raise ValueError(name)
            for user in self.listed.get(name, ()):
                listing.add(name, user, (f"of {name}",))
            listing.done(name)


def guarded(resolver: object, name: str = "corp") -> GuardedResolver:
    return GuardedResolver(name, resolver, OPTIONS, clock=ManualClock())  # type: ignore[arg-type]


def shown(listing: MemberListing) -> dict[str, tuple[list[str], str]]:
    return {name: (sorted(each.users), each.missing) for name, each in listing.groups.items()}


def test_the_shortest_way_counts() -> None:
    listing = MemberListing(["g"])
    for nested in (("a", "b"), ("c",), ("d", "e"), ()):
        listing.add("g", "sue", nested)
    assert listing.groups["g"].users == {"sue": ()}
    assert listing.pending == ["g"]


def test_members_are_bounded_by_memberships() -> None:
    listing = MemberListing(["g", "h"], max_members=2)
    listing.add("g", "sue")
    listing.add("g", "sue")
    assert listing.room == 1
    listing.add("h", "sue")
    with pytest.raises(ListingLimit, match="more than 2 members"):
        listing.add("h", "bob")


async def test_a_resolver_that_lists_nothing_says_so() -> None:
    listing = MemberListing(["g"])
    await guarded(FakeDirectory()).members(listing)
    assert shown(listing) == {"g": ([], "the resolver 'corp' cannot list the members of groups")}


async def test_a_failure_leaves_the_groups_before_it() -> None:
    listing = MemberListing(["g", "broken", "h"])
    await guarded(Lister(g=("sue",), h=("bob",))).members(listing)
    failed = "the resolver failed: ValueError"
    assert shown(listing) == {"g": (["sue"], ""), "broken": ([], failed), "h": ([], failed)}


async def test_an_open_circuit_breaker_is_not_passed() -> None:
    directory = Lister(g=("sue",))
    directory.broken = True
    resolver = guarded(directory)
    for number in range(BREAKER_FAILURES):
        await resolver.resolve(f"user{number}")
    listing = MemberListing(["g"])
    await resolver.members(listing)
    assert shown(listing) == {"g": ([], "the resolver 'corp' keeps failing and is paused")}


@pytest.mark.parametrize("mode", ["first", "union"])
async def test_chains_list_the_members_of_all(mode: ChainMode) -> None:
    members = [guarded(Lister(g=("sue",)), "a"), guarded(Lister(g=("bob", "sue")), "b")]
    listing = MemberListing(["g", "none"])
    await ResolverChain("all", members, mode).members(listing)
    assert shown(listing) == {"g": (["bob", "sue"], ""), "none": ([], "")}


async def test_chains_say_who_cannot_list() -> None:
    members = [guarded(FakeDirectory(), "a"), guarded(Lister(g=("bob",)), "b")]
    listing = MemberListing(["g", "broken"])
    await ResolverChain("all", members, "union").members(listing)
    lacks = "resolver 'a': the resolver 'a' cannot list the members of groups"
    assert shown(listing) == {
        "g": (["bob"], lacks),
        "broken": ([], f"{lacks}; resolver 'b': the resolver failed: ValueError"),
    }


async def test_chains_share_the_bounds() -> None:
    members = [guarded(Lister(g=("a", "b")), "a"), guarded(Lister(g=("c", "d")), "b")]
    listing = MemberListing(["g"], max_members=3)
    await ResolverChain("all", members, "union").members(listing)
    users, missing = shown(listing)["g"]
    assert (len(users), missing) == (3, "resolver 'b': the groups have more than 1 members")


async def test_local_resolvers() -> None:
    listing = MemberListing(["sue", "group1001"])
    await guarded(NoResolver(OPTIONS)).members(listing)
    assert shown(listing) == {"sue": (["sue"], ""), "group1001": (["group1001"], "")}
    listing = MemberListing(["group1001", "100", "none"])
    await guarded(StaticTableResolver(OPTIONS)).members(listing)
    users = [f"testuser{number}" for number in (1, 2, 3)]
    assert shown(listing) == {
        "group1001": (users, ""),
        "100": (["testuser2"], ""),
        "none": ([], ""),
    }


async def test_groups_of_the_host(tmp_path: Path) -> None:
    (nsswitch := tmp_path / "nsswitch.conf").write_text("passwd: files\ngroup: files # sss\n")
    names = [group.gr_name for group in grp.getgrall()]
    found, missing = group_members([*names, "no-such-group", "a\0b", "\ud800"], nsswitch)
    assert missing == ""
    assert found["no-such-group"] == found["a\0b"] == found["\ud800"] == set()
    groups_of = {
        account.pw_name: outcome.groups
        for account in pwd.getpwall()
        if isinstance(outcome := look_up_account(account.pw_name), KnownUser)
    }
    for name in names:
        assert found[name] & groups_of.keys() == {
            user for user, groups in groups_of.items() if name in groups
        }, name
    resolver = NssResolver(ResolverOptions())
    listing = MemberListing(["root"])
    await resolver.members(listing)
    await resolver.close()
    assert listing.groups["root"].missing or "root" in listing.groups["root"].users


def test_a_primary_group_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = pwd.struct_passwd(("sue", "x", 1, 4_000_000_123, "", "/", ""))
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry])
    found, _ = group_members(["4000000123", str(os.getgid())], tmp_path / "none")
    assert found["4000000123"] == {"sue"}


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("passwd: files systemd\ngroup: files [SUCCESS=merge] systemd\nhosts: dns\n", ""),
        ("passwd: files sss\ngroup:files\n", "sss"),
        ("passwd: files\ngroup: files [NOTFOUND=return] winbind\ninitgroups: ldap\n", "ldap, winb"),
    ],
)
def test_sources_that_may_hide_members(tmp_path: Path, text: str, others: str) -> None:
    (nsswitch := tmp_path / "nsswitch.conf").write_text(text)
    _, missing = group_members(["root"], nsswitch)
    assert bool(missing) == bool(others)
    assert others in missing
