"""The memory that followed groups and users take is counted as what Python takes for it."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any, Final

import pytest

from queuegate_server.identity.resolvers.ldap import sync_changes, user_lookup
from queuegate_server.identity.resolvers.ldap.entries import LdapEntry
from queuegate_server.identity.resolvers.ldap.ldap_faults import SetupFault, UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.sync_changes import AffectedUsers, FollowedContent
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup
from tests.support.long_work import finish

BASE: Final = "dc=lab,dc=test"
LONG: Final = "ou=x," * 1_000 + BASE
WIDE: Final = "ou=\U0001f600," * 500 + BASE
SPARE: Final = 256 << 10
SLOTS: Final = 256
"""The bytes that the places of a removed entry take."""


@pytest.fixture
def content() -> Iterator[FollowedContent]:
    options = LdapOptions.model_validate(
        {
            "urls": ["ldap://127.0.0.1"],
            "start_tls": False,
            "bind": "anonymous",
            "user_base": BASE,
            "group_base": BASE,
            "changes": "syncrepl",
            "changes_of_users": True,
        }
    )
    lookup = UserLookup(options, LdapStatistics())
    content = FollowedContent(options, lookup.users, lookup.kinds)
    yield content
    finish(content.clear())


def group(number: int, below: str, members: int, size: int) -> LdapEntry:
    values = [f"uid={n},{'x' * size},{BASE}".encode() for n in range(members)]
    return LdapEntry(f"cn=g{number},{below}", {"cn": [b"g%d" % number], "member": values})


def user(number: int, below: str, names: int, size: int) -> LdapEntry:
    values = [(f"u{number}.{n}" + "x" * size).encode() for n in range(names)]
    return LdapEntry(f"uid=u{number},{below}", {"uid": values})


SHAPES: Final[dict[str, tuple[Any, int, tuple[Any, ...]]]] = {
    "empty groups": (group, 2_000, (BASE, 0, 0)),
    "small groups": (group, 2_000, (BASE, 3, 0)),
    "a group of 50 000": (group, 1, (BASE, 50_000, 0)),
    "groups whose sets have just grown": (group, 30, (BASE, 620, 0)),
    "long values": (group, 10, (BASE, 100, 8_000)),
    "groups with long DNs": (group, 20, (LONG, 1, 0)),
    "groups with wide DNs": (group, 20, (WIDE, 1, 0)),
    "users": (user, 2_000, (BASE, 1, 0)),
    "users with many names": (user, 100, (BASE, 100, 0)),
    "users with long names": (user, 100, (BASE, 1, 10_000)),
    "users with long DNs": (user, 20, (LONG, 1, 0)),
    "users with wide DNs": (user, 20, (WIDE, 1, 0)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_kept_is_counted(content: FollowedContent, shape: Any) -> None:
    make, count, arguments = shape
    part = content.groups[0] if make is group else content.people[0]
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            finish(part.put(number.to_bytes(16), make(number, *arguments)))
        taken, counted = tracemalloc.get_traced_memory()[0], content.size
        for number in range(count):
            finish(part.remove(number.to_bytes(16)))
        taken_after_removal = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # Python keeps some freed objects, and dictionaries the places of removed entries.
    assert taken <= counted + SPARE
    assert counted <= 2 * taken
    assert taken_after_removal <= content.size + SPARE + SLOTS * count


def test_all_followers_share_one_limit(
    content: FollowedContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_changes, "MAX_CONTENT_BYTES", 1 << 20)
    other = FollowedContent(content.options, content.users, [])
    other.resize(1 << 19)
    large = group(0, BASE, 1_000, 1_000)
    with pytest.raises(SetupFault, match="take more than 1 MiB of memory"):
        finish(content.groups[0].put(b"g" * 16, large))
    finish(content.clear())
    other.resize(1 << 18)
    finish(other.clear())
    assert (content.size, other.size) == (0, 0)
    for number in range(100):
        finish(content.groups[0].put(number.to_bytes(16), group(number, BASE, 1, 0)))


def test_messages_that_are_being_read_share_the_limit(
    content: FollowedContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each counts as three times its size, until it has been read or its follower has ended."""
    monkeypatch.setattr(sync_changes, "MAX_CONTENT_BYTES", 1 << 20)
    other = FollowedContent(content.options, content.users, [])
    other.expect(100 << 10)
    content.resize(512 << 10)
    content.expect(50 << 10)
    with pytest.raises(SetupFault, match="is being read, take more than 1 MiB of memory"):
        content.expect(100 << 10)
    content.expect(0)
    other.expect(150 << 10)
    finish(content.clear())
    with pytest.raises(SetupFault, match="is being read, take more than 1 MiB of memory"):
        other.expect(400 << 10)
    finish(other.clear())
    content.expect(340 << 10)


def test_users_who_were_removed_do_not_add_up(
    content: FollowedContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_changes, "_MAX_REMOVED", 100)
    people = content.people[0]
    for number in range(sync_changes._MAX_REMOVED + 10):
        finish(people.put(b"u" * 16, user(number, BASE, 1, 0)))
    most = content.size
    for number in range(100):
        finish(people.put(b"u" * 16, user(number, BASE, 1, 0)))
    assert content.size <= most + 1_000


def test_groups_without_members_are_forgotten_in_steps(content: FollowedContent) -> None:
    for number in range(100):
        finish(content.groups[0].put(number.to_bytes(16), group(number, BASE, 0, 0)))
    assert sum(1 for _ in content.clear()) == 200  # by DN, and by entryUUID


def test_a_user_with_many_names(content: FollowedContent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_lookup, "MAX_NAMES", 10)
    people = content.people[0]
    finish(people.put(b"u" * 16, user(1, BASE, 10, 0)))
    with pytest.raises(UnusableData, match="has 11 values of uid, but at most 10 are allowed"):
        finish(people.put(b"u" * 16, user(1, BASE, 11, 0)))
    assert people.names_at(user(1, BASE, 0, 0).key)


@pytest.mark.parametrize(("attribute", "is_affected"), [("cn", True), ("member", False)])
def test_a_change_of_one_of_many_values(
    content: FollowedContent, attribute: str, is_affected: bool
) -> None:
    """The order of values does not matter, and one step does not look at all of them."""
    values = [b"%d" % number for number in range(5_000)]
    others = {"cn": [b"g"], "member": [f"uid=u,{BASE}".encode()]}
    groups = content.groups[0]

    def put(values: list[bytes]) -> AffectedUsers:
        steps = groups.put(b"g" * 16, LdapEntry(f"cn=g,{BASE}", others | {attribute: values}))
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                assert count >= 5
                affected: AffectedUsers = end.value
                return affected
            count += 1

    put(values)
    content.is_loading = False
    assert not put(values[::-1])
    affected = put([*values[1:], f"uid=v,{BASE}".encode()])
    if is_affected:
        assert [*affected.dns.values()] == [f"uid=u,{BASE}"]
    else:
        assert affected.is_all  # one of the removed values is no DN
