"""ListUsers without a socket: who is confirmed, and what is kept between pages."""

import asyncio
from collections.abc import Mapping

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import LookupFailure, Outcome
from queuegate_server.rpc import user_listing
from queuegate_server.rpc.access_service import AccessServicer
from tests.support.fakes.directory import FakeDirectory
from tests.support.snapshots import groups_from, servicer, zero

SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT


class Lister(FakeDirectory):
    """A directory that can list members; lookups of users in `failing` fail."""

    def __init__(self, members: Mapping[str, tuple[str, ...]], **users: tuple[str, ...]) -> None:
        super().__init__(**users)
        self.members_of = dict(members)
        self.failing: set[str] = set()
        self.listings = 0
        self.is_listing = asyncio.Event()
        self.hold_listing = asyncio.Event()
        self.hold_listing.set()

    async def resolve(self, user: str) -> Outcome:
        if user in self.failing:
            return LookupFailure("this entry is broken")
        return await super().resolve(user)

    async def members(self, listing: MemberListing) -> None:
        self.listings += 1
        self.is_listing.set()
        await self.hold_listing.wait()
        for name in listing.pending:
            for user in self.members_of.get(name, ()):
                listing.add(name, user)
            listing.done(name)


def serving(directory: Lister, submit: str, admin: str = "") -> AccessServicer:
    partition = build_partition("default", "", [QueueAcls("root", parse(submit), parse(admin))])
    served = {"default": ServedPartition(partition, groups_from(directory), False)}
    engine = Engine(zero)
    engine.serve(Snapshot(Policy({"default": partition}, revision=1), served, 0.0))
    return servicer(engine)


async def listed(
    access: AccessServicer, *, size: int = 0, token: str = ""
) -> access_pb2.ListUsersResponse:
    request = access_pb2.ListUsersRequest(
        queue="root", access=SUBMIT, page_size=size, page_token=token
    )
    data = await access.ListUsers(request.SerializeToString())
    return access_pb2.ListUsersResponse.FromString(data)


def names(page: access_pb2.ListUsersResponse) -> list[str]:
    return [user.user for user in page.users]


async def test_users_whom_a_check_denies_are_left_out() -> None:
    directory = Lister(
        {"dev": ("sue", "former", "ghost", "a\nb", "\ud800")}, sue=("dev",), former=()
    )
    page = await listed(serving(directory, "bob dev"))
    assert names(page) == ["bob", "sue"]
    assert page.complete
    assert not page.groups_may_be_asserted
    assert "a\nb" not in directory.asked


async def test_users_who_cannot_be_decided_are_not_confirmed() -> None:
    directory = Lister({"dev": ("sue", "broken")}, sue=("dev",))
    directory.failing = {"broken"}
    page = await listed(serving(directory, " dev"))
    assert {user.user: user.confirmed for user in page.users} == {"broken": False, "sue": True}
    assert "is unavailable" in page.users[0].detail
    assert page.complete


async def test_users_for_whom_the_time_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_listing, "CONFIRM_SECONDS", 0.01)
    directory = Lister({"dev": ("sue",)}, sue=("dev",))
    directory.hold.clear()
    page = await listed(serving(directory, "bob dev"))
    assert {user.user: user.confirmed for user in page.users} == {"bob": True, "sue": False}
    assert "not all users on the page were checked" in page.users[1].detail


async def test_the_first_grant_decides_and_others_follow() -> None:
    groups = tuple(f"g{number}" for number in range(14))
    directory = Lister(dict.fromkeys(groups, ("sue",)), sue=tuple(reversed(groups)))
    page = await listed(serving(directory, "sue " + ",".join(groups)))
    [user] = page.users
    assert [grant.name for grant in user.via][:2] == ["sue", "g0"]
    assert (len(user.via), user.further) == (10, 5)
    page = await listed(serving(directory, " " + ",".join(groups)))
    [user] = page.users
    # A check takes the first of the user's groups.
    assert user.via[0].name == "g13"


async def test_members_are_read_for_the_first_page_and_kept_for_the_others() -> None:
    users = tuple(f"u{number:03}" for number in range(5))
    directory = Lister({"dev": users}, **dict.fromkeys(users, ("dev",)))
    access = serving(directory, " dev")
    first = await listed(access, size=2)
    directory.members_of["dev"] = ("u000",)
    second = await listed(access, size=2, token=first.next_page_token)
    third = await listed(access, size=2, token=second.next_page_token)
    assert [names(page) for page in (first, second, third)] == [
        ["u000", "u001"], ["u002", "u003"], ["u004"],
    ]  # fmt: skip
    assert third.next_page_token == ""
    assert directory.listings == 1
    assert names(await listed(access, size=2)) == ["u000"]
    assert directory.listings == 2


async def test_a_page_goes_on_without_what_was_kept() -> None:
    users = tuple(f"u{number}" for number in range(4))
    directory = Lister({"dev": users}, **dict.fromkeys(users, ("dev",)))
    first = await listed(serving(directory, " dev"), size=2)
    # Another worker has the same policy, and has kept nothing.
    second = await listed(serving(directory, " dev"), size=2, token=first.next_page_token)
    assert names(second) == ["u2", "u3"]
    assert directory.listings == 2


async def test_a_cancelled_call_ends_the_listing() -> None:
    directory = Lister({"dev": ("sue",)}, sue=("dev",))
    directory.hold_listing.clear()
    access = serving(directory, " dev")
    call = asyncio.ensure_future(listed(access))
    await directory.is_listing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    directory.hold_listing.set()
    # The slot and the resolver's listings are free again.
    for _ in range(3):
        assert names(await listed(access)) == ["sue"]


async def test_many_names_are_sorted_across_chunks() -> None:
    users = tuple(f"u{number * 7919 % 5000}" for number in range(5000))
    directory = Lister({"dev": users}, **dict.fromkeys(users, ("dev",)))
    access = serving(directory, "zoe,a dev")
    found: list[str] = []
    token = ""
    while True:
        page = await listed(access, size=1000, token=token)
        found += names(page)
        if not (token := page.next_page_token):
            break
    assert found == sorted({*users, "zoe", "a"})
