"""`changes: syncrepl` on a real slapd: whose groups are looked up again, and when."""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trustme
import yaml
from click.testing import CliRunner
from ldap.controls import ResponseControl

from queuegate_server.cli.source_check import source_check
from queuegate_server.identity.resolver import CannotFollow, KnownUser
from queuegate_server.identity.resolvers.ldap import sync_follower
from queuegate_server.identity.resolvers.ldap.ber import BOOLEAN, OCTETS, SEQUENCE, element
from queuegate_server.identity.resolvers.ldap.followed_messages import FollowedMessage
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from queuegate_server.identity.resolvers.ldap.ldap_statistics import LdapStatistics
from queuegate_server.identity.resolvers.ldap.sync_changes import AffectedUsers, FollowedContent
from queuegate_server.identity.resolvers.ldap.sync_follower import _Stream
from queuegate_server.identity.resolvers.ldap.sync_messages import SYNC_INFO, SYNC_REQUEST
from queuegate_server.identity.resolvers.ldap.user_lookup import UserLookup
from tests.integration.ldap.conftest import Build
from tests.support.change_sink import ALL, Sink, following, why_not_followed
from tests.support.fakes.ldap_server import Answer, fake_directory
from tests.support.long_work import finish
from tests.support.servers import ldap_entries as entries
from tests.support.servers.ldap_entries import change, delete, dn, group_dn, rename
from tests.support.servers.slapd import GROUPS, PEOPLE, POSIX, SERVICE, Slapd, running_slapd

SYNCPROV = "overlay syncprov\nsyncprov-sessionlog 1000\n"
UNLIMITED = f'limits dn.exact="{SERVICE}" size=unlimited\n'
BuildOptions = Callable[..., LdapOptions]
OLD = b"rid=000,csn=20000101000000.000000Z#000000#000#000000"


@pytest.fixture
def source(ca: trustme.CA, tmp_path: Path) -> Iterator[Slapd]:
    """A directory that reports its changes."""
    with running_slapd(
        tmp_path / "slapd",
        ca,
        entries.standard(),
        more_globals="moduleload syncprov",
        more_database=SYNCPROV + UNLIMITED,
    ) as slapd:
        yield slapd


def member(group: str, verb: str, *members: str) -> str:
    return change(group_dn(group), f"{verb}: member", *(f"member: {each}" for each in members))


FOLLOW: dict[str, Any] = {"changes": "syncrepl", "repeat_after": 0}


async def test_members_that_join_and_leave(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(source, **FOLLOW), sink):
        assert sink.reports == []
        source.modify(member("analytics", "add", dn("carol")))
        await sink.until("carol")
        source.modify(member("analytics", "delete", dn("alice"), dn("bob")))
        await sink.until("alice", "bob")
        # A member who leaves and returns is reported twice.
        source.modify(member("Ops", "add", dn("bob")) + member("Ops", "delete", dn("bob")))
        await sink.until("bob")


async def test_groups_that_appear_change_their_name_and_disappear(
    source: Slapd, resolver: Build
) -> None:
    sink = Sink()
    async with following(await resolver(source, **FOLLOW), sink):
        source.add(entries.group("new", dn("bob"), dn("dave")))
        await sink.until("bob", "dave")
        source.modify(rename(group_dn("new"), "cn=newer"))
        await sink.until("bob", "dave")
        source.modify(delete(group_dn("newer")))
        await sink.until("bob", "dave")
        source.modify(change(group_dn("Ops"), "replace: description", "description: x"))
        source.modify(member("Ops", "add", dn("carol")))
        await sink.until("carol")


async def test_members_of_nested_groups(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(source, nested="walk", **FOLLOW), sink):
        # carol is in level1, which is in level2 and so on; level2 also contains level4.
        source.modify(member("Ops", "add", group_dn("level4")))
        await sink.until("carol")
        source.modify(member("level1", "add", dn("bob")))
        await sink.until("bob")
        source.modify(delete(group_dn("level3")))
        await sink.until("bob", "carol")


async def test_ten_thousand_groups(ca: trustme.CA, tmp_path: Path, resolver: Build) -> None:
    """Every group is in the next one."""
    groups = "".join(
        entries.group(f"g{number}", dn("bob"), *([group_dn(f"g{number - 1}")] if number else []))
        for number in range(10_000)
    )
    sink = Sink()
    with running_slapd(
        tmp_path / "slapd",
        ca,
        entries.standard() + groups,
        more_globals="moduleload syncprov",
        more_database=SYNCPROV + UNLIMITED,
    ) as slapd:
        async with following(await resolver(slapd, nested="walk", **FOLLOW), sink):
            slapd.modify(member("g5000", "add", dn("carol")))
            await sink.until("carol")
            slapd.modify(member("g500", "delete", group_dn("g499")))
            await sink.until("bob")
            slapd.modify(member("g5000", "delete", group_dn("g4999")))
            await sink.until_all()


async def test_names_that_groups_list(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    posix = {"preset": "posix", "group_base": POSIX, "primary_group": "none"}
    async with following(await resolver(source, **posix, **FOLLOW), sink):
        source.add(entries.posix_group("more", 777, "bob", "nobody"))
        await sink.until("bob", "nobody")
        source.modify(change(f"cn=more,{POSIX}", "delete: memberUid", "memberUid: nobody"))
        await sink.until("nobody")


async def test_a_primary_group_concerns_everybody(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    posix = {"preset": "posix", "group_base": POSIX}
    async with following(await resolver(source, **posix, **FOLLOW), sink):
        source.add(entries.posix_group("more", 777))
        await sink.until_all()


@pytest.mark.parametrize("more", [{"user_match": "casefold"}, {"nested": "in_chain"}])
async def test_a_change_concerns_everybody_if_names_or_groups_are_vague(
    source: Slapd, resolver: Build, more: dict[str, Any]
) -> None:
    sink = Sink()
    async with following(await resolver(source, **more, **FOLLOW), sink):
        source.modify(member("analytics", "add", dn("carol")))
        await sink.until_all()


async def test_a_member_without_an_entry_concerns_everybody(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(source, **FOLLOW), sink):
        source.modify(member("analytics", "add", dn("ghost")))
        await sink.until_all()


async def test_users(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    async with following(await resolver(source, changes_of_users=True, **FOLLOW), sink):
        source.add(entries.person("erin"))
        await sink.until("erin")
        source.modify(change(dn("erin"), "add: uid", "uid: rin"))
        await sink.until("erin", "rin")
        source.modify(change(dn("erin"), "replace: description", "description: x"))
        source.modify(rename(dn("erin"), "uid=eve"))
        await sink.until("erin", "rin", "eve")
        source.modify(delete(dn("eve")))
        await sink.until("rin", "eve")
        # Groups may still list a user who was deleted.
        source.modify(delete(dn("bob")) + member("analytics", "delete", dn("bob")))
        await sink.until("bob")


async def test_a_change_is_repeated(source: Slapd, resolver: Build) -> None:
    sink = Sink()
    follow = {**FOLLOW, "repeat_after": 0.2}
    async with following(await resolver(source, **follow), sink):
        first = sink.position
        source.modify(member("analytics", "add", dn("carol")))
        await sink.until("carol")
        assert sink.position == first
        await sink.until("carol")
        while sink.position == first:
            await sink.until_reached()


async def position_of(resolver: LdapResolver) -> bytes:
    sink = Sink()
    async with following(resolver, sink):
        assert sink.position is not None
        return sink.position


async def test_a_follower_continues_where_another_one_ended(source: Slapd, resolver: Build) -> None:
    built = await resolver(source, changes_of_users=True, **FOLLOW)
    position = await position_of(built)
    sink = Sink(position)
    async with following(built, sink):
        assert sink.reports == []  # nothing has changed
        source.modify(member("analytics", "add", dn("carol")))
        await sink.until("carol")
    source.modify(member("analytics", "add", dn("dave")))
    source.modify(member("analytics", "delete", dn("dave")))
    late = Sink(sink.position)
    built = await resolver(source, changes_of_users=True, **FOLLOW | {"repeat_after": 0.2})
    async with following(built, late):
        assert late.reports == [ALL]
        await late.until_all()
        await late.until_all()  # the repetition, after which the position counts
    source.modify(delete(group_dn("Ops")))
    late = Sink(late.position)
    async with following(built, late):
        assert late.reports == [ALL]


async def test_changes_elsewhere_do_not_count(source: Slapd, resolver: Build) -> None:
    built = await resolver(source, **FOLLOW)
    position = await position_of(built)
    source.add(entries.person("erin"))
    sink = Sink(position)
    async with following(built, sink):
        assert sink.reports == []


async def test_a_restart_of_the_server(source: Slapd, resolver: Build) -> None:
    built = await resolver(source, **FOLLOW)
    sink = Sink()
    async with following(built, sink) as task:
        source.stop()
        with pytest.raises(CannotFollow, match=r"closed the connection|lost"):
            await task
    source.start()
    source.modify(member("analytics", "add", dn("carol")))
    again = Sink(sink.position)
    while not again.count:
        async with following(built, again):
            await asyncio.sleep(0.05)
    assert again.reports == [ALL]


@pytest.mark.parametrize(
    "position",
    [
        b"",
        b"junk",
        b'{"server":"ldap://elsewhere:389","cookies":{}}',
        b'{"server":"SERVER","cookies":{}}',
        b'{"server":"SERVER","cookies":{"NAME":"anVuaw=="}}',
        b'{"server":"SERVER","cookies":{"NAME":"' + base64.b64encode(OLD) + b'"}}',
    ],
)
async def test_a_position_that_the_server_does_not_know(
    source: Slapd, resolver: Build, position: bytes
) -> None:
    built = await resolver(source, **FOLLOW)
    name = (await position_of(built)).partition(b'"cookies":{"')[2].partition(b'"')[0]
    url = source.url.encode()
    sink = Sink(position.replace(b"SERVER", url).replace(b"NAME", name))
    async with following(built, sink):
        assert sink.reports == [ALL]


async def test_a_server_without_the_overlay_still_answers_lookups(
    directory: Slapd, resolver: Build
) -> None:
    built = await resolver(directory, **FOLLOW)
    assert "enable it" in await why_not_followed(built)
    assert isinstance(await built.resolve("bob"), KnownUser)


async def test_a_server_that_falls_silent_is_a_fault(
    resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_follower, "SILENCE_SECONDS", 0.1)
    async with fake_directory(lambda asked: Answer(silent=SYNC_REQUEST in asked.controls)) as fake:
        built = await resolver(fake.url, start_tls=False, allow_plaintext_bind=True, **FOLLOW)
        assert "nothing for 0.1 s (raise its limits" in await why_not_followed(built)


async def test_a_number_in_a_changelog_proves_nothing(
    source: Slapd, resolver: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """389 Directory Server may answer that nothing has changed since, although it has."""
    built = await resolver(source, **FOLLOW)
    position = json.loads(await position_of(built))
    cookie = base64.b64encode(b"localhost:389#cn=svc:cn=groups:(cn=*)#7").decode()
    position["cookies"] = dict.fromkeys(position["cookies"], cookie)

    async def has_not(*_: object) -> bool:
        return False

    monkeypatch.setattr(sync_follower, "_has_changed", has_not)
    sink = Sink(json.dumps(position).encode())
    async with following(built, sink):
        assert sink.reports == [ALL]


@pytest.mark.parametrize("follows", [True, False])
def test_source_check_says_whether_changes_can_be_followed(
    directory: Slapd, source: Slapd, options: BuildOptions, tmp_path: Path, follows: bool
) -> None:
    server = source if follows else directory
    corp = options(server, **FOLLOW).model_dump(mode="json", exclude_unset=True)
    file = tmp_path / "queuegate.yaml"
    file.write_text(yaml.safe_dump({"resolvers": {"corp": {"type": "ldap", **corp}}}))
    done = CliRunner().invoke(source_check, ["--config", str(file), "corp", "alice"])
    expected = (
        "can be followed"
        if follows
        else "cannot be followed: the server does not support content synchronization (RFC 4533) "
        "(enable it (OpenLDAP: overlay syncprov; FreeIPA: the content synchronization plugin), or "
        "set changes: none)"
    )
    assert done.output.splitlines()[-1] == f"  changes: {expected}"
    assert done.exit_code == (0 if follows else 1)


@pytest.mark.parametrize(
    ("database", "message"),
    [
        (UNLIMITED, r"Critical extension is unavailable \(12\).* \(enable it \(OpenLDAP: overlay"),
        (
            SYNCPROV + UNLIMITED.replace("unlimited", "3"),
            r"size limit: .* \(raise the limit for the bind account\)",
        ),
    ],
    ids=["the database lacks the overlay", "size limit"],
)
async def test_a_directory_that_is_not_set_up(
    ca: trustme.CA, tmp_path: Path, resolver: Build, database: str, message: str
) -> None:
    with running_slapd(
        tmp_path / "slapd",
        ca,
        entries.standard(),
        more_globals="moduleload syncprov",
        more_database=database,
    ) as slapd:
        fault = await why_not_followed(await resolver(slapd, **FOLLOW))
    assert re.search(message, fault)


async def test_bases_and_attributes(source: Slapd, resolver: Build) -> None:
    """Users elsewhere do not count, and groups of any kind do."""
    sink = Sink()
    more = {
        "user_base": PEOPLE,
        "more_groups": [
            {
                "group_filter": "(objectClass=groupOfUniqueNames)",
                "member_attribute": "uniqueMember",
                "group_base": GROUPS,
            }
        ],
    }
    async with following(await resolver(source, **more, **FOLLOW), sink):
        source.modify(change(group_dn("unique"), "add: uniqueMember", f"uniqueMember: {dn('bob')}"))
        await sink.until("bob")
        source.modify(member("Ops", "add", SERVICE, dn("bob")))
        await sink.until("bob")


def test_deleted_entries_that_are_reported_as_a_set(options: BuildOptions) -> None:
    """As RFC 4533 permits (section 2.5); slapd and 389 Directory Server report each entry."""
    given = options("ldap://127.0.0.1")
    lookup = UserLookup(given, LdapStatistics())
    content = FollowedContent(given, lookup.users, lookup.kinds)
    content.is_loading = False
    noted: list[AffectedUsers] = []
    stream = _Stream(Mock(), content.groups[0], noted.append, content.expect)
    uuids = [bytes([number]) * 16 for number in range(3)]
    for number, (uuid, user) in enumerate(zip(uuids, ("alice", "bob", "carol"), strict=True)):
        attributes = {"cn": [b"g"], "member": [dn(user).encode()]}
        state = ResponseControl("1.3.6.1.4.1.4203.1.9.1.2")
        state.decodeControlValue(element(SEQUENCE, element(0x0A, b"\x01") + element(OCTETS, uuid)))
        finish(stream._receive(FollowedMessage(group_dn(f"g{number}"), attributes, [state])))
    noted.clear()
    of_entries = element(0x31, element(OCTETS, uuids[0]) + element(OCTETS, uuids[2]))
    for is_deleted in (b"\0", b"\xff"):
        info = element(0xA3, element(BOOLEAN, is_deleted) + of_entries)
        finish(stream._receive(FollowedMessage(SYNC_INFO, info, [])))
    present, deleted = noted
    assert not present
    assert set(deleted.dns.values()) == {dn("alice"), dn("carol")}
