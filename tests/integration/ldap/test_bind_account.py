"""The rights that the page about LDAP gives the bind account in OpenLDAP are enough, and needed."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from tests.integration.ldap.conftest import Build
from tests.support.change_sink import Sink, following
from tests.support.servers import ldap_entries as entries
from tests.support.servers.ldap_entries import change, dn, group_dn
from tests.support.servers.slapd import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    SERVICE,
    SUFFIX,
    Slapd,
    program,
    running_slapd,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "ldap.md"
_EXAMPLE = "dc=example,dc=com"
_NAMES = {
    f"cn=queuegate,{_EXAMPLE}": SERVICE,
    f"ou=people,{_EXAMPLE}": PEOPLE,
    f"ou=groups,{_EXAMPLE}": GROUPS,
    f'"{_EXAMPLE}"': f'"{SUFFIX}"',
}


def block() -> str:
    """Return the page's change of the configuration."""
    pattern = r'^```ldif title="access.ldif"\n(.*?)^```'
    [found] = re.findall(pattern, PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def ours(text: str) -> str:
    """Return a text with the names of the directory of the tests."""
    for example, name in _NAMES.items():
        text = text.replace(example, name)
    return text


def rules() -> list[str]:
    """Return the page's access rules, for the directory of the tests."""
    unfolded = ours(block()).replace("\n  ", " ")
    return re.findall(r"^olcAccess: \{\d+\}(.*)$", unfolded, re.MULTILINE)


@pytest.fixture(scope="module")
def source(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A server that shows the bind account nothing else."""
    access = "\n".join(f"access {rule}" for rule in rules())
    ldif = (
        entries.base()
        + entries.person("alice")
        + entries.person("locked")
        + entries.group("inner", dn("alice"), dn("locked"))
        + entries.group("outer", group_dn("inner"))
    )
    with running_slapd(
        tmp_path_factory.mktemp("slapd"),
        ca,
        ldif,
        more_globals="moduleload syncprov",
        more_database="overlay syncprov",
        first_access=f"{access}\naccess to * by * none",
    ) as slapd:
        lock = ("add: pwdAccountLockedTime", "pwdAccountLockedTime: 000001010000Z")
        slapd.modify(change(dn("locked"), *lock))
        yield slapd


@pytest.mark.parametrize("groups_from", ["member_dn", "member_of"])
async def test_the_rights_are_enough(source: Slapd, resolver: Build, groups_from: str) -> None:
    opened = await resolver(
        source,
        preset="openldap",
        groups_from=groups_from,
        nested="walk",
        disabled_users="refuse",
        changes="syncrepl",
        changes_of_users=True,
        repeat_after=0,
    )
    assert await opened.resolve("alice") == KnownUser(("inner", "outer"))
    assert isinstance(await opened.resolve("locked"), NoSuchUser)
    users = (await opened.all_users(10)).names
    assert "alice" in users
    assert "locked" not in users
    listing = MemberListing(["outer"])
    await opened.members(listing)
    assert listing.groups["outer"].missing == ""
    assert "alice" in listing.groups["outer"].users
    name = f"new-{groups_from}"
    async with following(opened, sink := Sink()):
        source.add(entries.person(name))
        await sink.until(name)
        source.modify(change(group_dn("inner"), "add: member", f"member: {dn(name)}"))
        await sink.until(name)
        assert await opened.resolve(name) == KnownUser(("inner", "outer"))


def test_the_account_sees_nothing_else(source: Slapd) -> None:
    shown = subprocess.run(
        ["ldapsearch", "-x", "-LLL", "-H", source.url, "-D", SERVICE, "-w", PASSWORD, "-b", PEOPLE],
        capture_output=True, text=True, check=True, env={**os.environ, "LDAPNOINIT": "1"},
    ).stdout  # fmt: skip
    assert "uid: alice" in shown
    attributes = set(re.findall(r"^(\w+):", shown, re.MULTILINE)) - {"dn"}
    assert attributes == {"objectClass", "uid", "gidNumber"}


def test_the_configuration_accepts_the_rules(source: Slapd, tmp_path: Path) -> None:
    """The page's LDIF changes `cn=config`, as ldapmodify would."""
    folder, file = tmp_path / "slapd.d", tmp_path / "access.ldif"
    folder.mkdir()
    file.write_text(ours(block()))
    for tool, *arguments in (
        ("slaptest", "-f", str(source.folder / "slapd.conf")),
        ("slapmodify", "-n", "0", "-l", str(file)),
    ):
        done = subprocess.run(
            [program(tool), "-F", str(folder), *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    [database] = [
        each for each in (folder / "cn=config").iterdir() if each.name == "olcDatabase={1}mdb.ldif"
    ]
    text = database.read_text().replace("\n ", "")
    for number, rule in enumerate(rules()):
        assert f"olcAccess: {{{number}}}{rule}" in text
