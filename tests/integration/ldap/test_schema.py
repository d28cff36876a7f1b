"""Attributes that the schema of a directory does not have: a fault of the settings, and not a user
who does not exist or has no groups.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.resolvers.ldap.filter_syntax import missing_attributes
from tests.integration.ldap.conftest import Build
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers import ldap_entries as entries
from tests.support.servers.slapd import Slapd, running_slapd


@pytest.fixture(scope="module")
def silent_directory(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A directory whose schema nobody may read."""
    hidden = 'access to dn.base="cn=Subschema" by * none\naccess to dn.base="" by * read'
    folder = tmp_path_factory.mktemp("silent")
    with running_slapd(folder, ca, entries.standard(), more_globals=hidden) as slapd:
        yield slapd


UNKNOWN = [
    ("(&(objectClass=person)(sAMAccountName={user}))", "sAMAccountName"),
    ("(sAMAccountName={user})", "sAMAccountName"),
    ("(&(objectCategory=person)(uid={user}))", "objectCategory"),
    ("(&(uid={user})(!(userAccountControl=514)))", "userAccountControl"),
    ("(&(uid={user})(|(nsRole=a)(nsRole=b)))", "nsRole"),
    ("(&(uid={user})(1.2.3.4.5=x))", "1.2.3.4.5"),
    ("(&(uid={user})(nsAccountLock;lang-en=x))", "nsAccountLock;lang-en"),
]


@pytest.mark.parametrize(("user_filter", "attribute"), UNKNOWN)
async def test_an_unknown_attribute_in_user_filter(
    resolver: Build, directory: Slapd, silent_directory: Slapd, user_filter: str, attribute: str
) -> None:
    opened = await resolver(directory, user_filter=user_filter)
    for _ in range(2):
        failure = await lookup_failure(opened, "alice")
        assert f"no attribute {attribute}, so user_filter finds nobody" in failure
        assert "correct user_filter" in failure
    # Once for each connection.
    assert opened.statistics.steps[directory.url, "schema"].succeeded == 2
    unreadable = await resolver(silent_directory, user_filter=user_filter)
    assert isinstance(await unreadable.resolve("alice"), NoSuchUser)


@rows
async def test_a_filter_that_can_find_somebody(
    resolver: Build, directory: Slapd, user_filter: str
) -> None:
    opened = await resolver(directory, user_filter=user_filter)
    assert isinstance(await opened.resolve("nobody-by-this-name"), NoSuchUser)


@pytest.mark.parametrize(
    ("given", "attribute"),
    [
        ({"group_filter": "(groupType=2)"}, "groupType"),
        ({"member_attribute": "memberr"}, "memberr"),
        ({"groups_from": "member_of", "member_of_attribute": "isMemberOf"}, "isMemberOf"),
    ],
)
async def test_an_unknown_attribute_of_groups(
    resolver: Build, directory: Slapd, given: dict[str, Any], attribute: str
) -> None:
    failure = await lookup_failure(await resolver(directory, **given), "alice")
    assert f"no attribute {attribute}, so no groups are found" in failure
    # Another kind of groups can be found.
    both = await resolver(directory, **given, more_groups=[{}])
    assert await both.resolve("alice") == KnownUser(("analytics", "Ops"))
    assert isinstance(await both.resolve("twin2"), NoSuchUser)


async def test_a_user_without_groups_has_none(
    resolver: Build, own_directory: Slapd, tmp_path: Path
) -> None:
    own_directory.add(entries.person("erin"))
    given = {"member_attribute": ["member", "memberr"]}
    assert await (await resolver(own_directory, **given)).resolve("erin") == KnownUser(())


@rows
def test_what_a_filter_needs(text: str, missing: tuple[str, ...]) -> None:
    assert missing_attributes(text, frozenset({"a", "b"})) == missing
