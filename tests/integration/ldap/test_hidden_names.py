"""Users whose name the bind account may search for, but not read, with a real slapd.

They are missing from lists, which say so; everybody else is listed.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from queuegate_server.identity.members import CannotListUsers, MemberListing
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.test_ldap_check import settings
from tests.support.resolvers import lookup_failure
from tests.support.rows import rows
from tests.support.servers import ldap_entries as entries
from tests.support.servers.ldap_entries import dn, group_dn
from tests.support.servers.queuegate_server import server_command
from tests.support.servers.slapd import GROUPS, SERVICE, Slapd, running_slapd

NUMBER = 600
QUEUES = """\
partitions:
  - name: default
    queues:
      - {{name: root, submitacl: "{}"}}
"""


@pytest.fixture(scope="module")
def source(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    hidden = f'access to dn.regex="^uid=hidden" attrs=uid by dn.exact={SERVICE} search by * none'
    posix = entries.entry(
        f"cn=numbered,{GROUPS}",
        ("objectClass", "posixGroup"),
        ("cn", "numbered"),
        ("gidNumber", str(NUMBER)),
    )
    ldif = (
        entries.base()
        + entries.person("alice", NUMBER)
        + entries.person("hidden1", NUMBER)
        + entries.person("hidden2")
        + entries.group("clean", dn("alice"))
        + entries.group("one", dn("hidden1"), dn("alice"))
        + entries.group("two", dn("alice"), dn("hidden1"), dn("hidden2"))
        + entries.group("above", group_dn("one"))
        + posix
    )
    folder = tmp_path_factory.mktemp("slapd")
    with running_slapd(folder, ca, ldif, first_access=hidden) as slapd:
        yield slapd


async def test_the_list_of_all_users(source: Slapd, resolver: Build) -> None:
    opened = await resolver(source)
    assert "no readable uid" in await lookup_failure(opened, "hidden1")
    names, missing = await opened.all_users(100)
    assert "alice" in names
    assert not {*names} & {"hidden1", "hidden2"}
    assert missing == (
        f"the list of all users lacks 2, whose lookups fail; the first is '{dn('hidden1')}': "
        "the user's entry has no readable uid (grant the bind account read access)"
    )


async def test_a_list_of_nobody_is_none(source: Slapd, resolver: Build) -> None:
    opened = await resolver(source, user_filter="(&(uid={user})(uid=hidden*))")
    with pytest.raises(CannotListUsers, match="would be empty: it lacks 2, whose lookups fail"):
        await opened.all_users(100)


@rows
async def test_the_members_of_groups(
    source: Slapd, resolver: Build, given: dict[str, Any], missing: dict[str, int]
) -> None:
    """Each group says it, also if an earlier one of the list has the same member."""
    opened = await resolver(source, **given)
    listing = MemberListing(missing)
    await opened.members(listing)
    for name, count in missing.items():
        listed = listing.groups[name]
        expected = {} if name == "above" and "nested" not in given else {"alice"}
        assert listed.users.keys() == {*expected}, name
        members = {0: "", 1: "1 member has", 2: "2 members have"}[count]
        assert listed.missing == (
            f"{members} no readable uid, such as {dn('hidden1')!r}: grant the bind account read "
            "access"
            if count
            else ""
        ), name


def test_a_comparison_for_everybody_says_who_is_missing(
    source: Slapd, tmp_path: Path, ca_file: Path, password_file: Path
) -> None:
    config = settings(tmp_path, ca_file, password_file, source.url)
    old, new = tmp_path / "queues.yaml", tmp_path / "new.yaml"
    old.write_text(QUEUES.format(" "))
    new.write_text(QUEUES.format(" two"))
    served = f"policy: {{path: {old}}}\npartitions: {{default: {{resolver: corp}}}}\n"
    config.write_text(served + config.read_text())
    claims = tmp_path / "claims.txt"
    claims.write_text("claims: [never user:nobody submit root]\n")
    everybody = ("--config", str(config), "--users-from", "directory")
    for command, status, shown in (
        (("diff", "--people", *everybody, str(old), str(new)), 1, 'submit: + user "alice"'),
        (("diff", "--people", *everybody, str(old), str(old)), 3, ""),
        (("prove", *everybody, str(old), str(claims)), 3, "proved"),
        (("lint", *everybody, str(old)), 3, ""),
    ):
        done = subprocess.run(
            server_command(*command), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == status, done.stderr
        assert shown in done.stdout
        assert 'incomplete: partition "default": the list of all users lacks 2' in done.stderr
