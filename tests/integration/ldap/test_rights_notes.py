"""What `source-check` says about entries that searches of the bind account miss, with slapd."""

from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.integration.ldap.test_ldap_check import run, settings
from tests.support.rows import rows
from tests.support.servers.ldap_entries import base, change, dn, entry, group, person
from tests.support.servers.slapd import GROUPS, PEOPLE, SERVICE, running_slapd

ACCOUNT = entry(
    f"uid=robot,{PEOPLE}",
    ("objectClass", "account"),
    ("uid", "robot"),
)
AT = f"cn=dynamic,{GROUPS}"
DYNAMIC = entry(
    AT,
    ("objectClass", "groupOfURLs"),
    ("cn", "dynamic"),
    ("memberURL", f"ldap:///{PEOPLE}??one?(uid=alice)"),
)
ENTRIES = base() + person("alice") + group("data", dn("alice")) + ACCOUNT
MANY = base() + person("alice") + "".join(group(f"g{n:02}", dn("alice")) for n in range(30))
DYNLIST: dict[str, Any] = {
    "more_globals": "include /etc/ldap/schema/dyngroup.schema\nmoduleload dynlist",
    "more_database": "overlay dynlist\n"
    "dynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames",
}


def access(what: str, level: str) -> str:
    return f"access to {what} by dn.exact={SERVICE} {level} by * none"


@pytest.mark.parametrize(
    ("first_access", "more", "user", "status", "note"),
    [
        (
            access(f"dn.subtree={PEOPLE} attrs=objectClass", "none"),
            "",
            "alice",
            1,
            "has no permission to read its objectClass; grant the bind account read access",
        ),
        (
            "",
            "    user_filter: (&(objectClass=person)(uid={user}))\n",
            "robot",
            1,
            "has this name, but user_filter does not match it: it has the object classes account",
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=member", "none"),
            "",
            "alice",
            0,
            "no group below group_base has a value of member that is visible",
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=member", "search"),
            "",
            "alice",
            0,
            "the bind account may search for member, but not read it",
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=objectClass", "none"),
            "",
            "alice",
            0,
            "does not match it: the bind account has no permission to read its objectClass",
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=objectClass,member", "none"),
            "",
            "alice",
            0,
            "group_filter matches no entry below group_base, but some have a value of cn",
        ),
        (
            "",
            "    group_filter: (objectClass=groupOfUniqueNames)\n",
            "alice",
            0,
            "lists the user, but group_filter does not match it: it has the object classes groupOf",
        ),
    ],
    ids=[
        "user's class",
        "class of user",
        "hidden members",
        "members to search",
        "group's class",
        "hidden groups",
        "class of group",
    ],
)
def test_a_note_says_why(
    tmp_path: Path,
    ca: trustme.CA,
    ca_file: Path,
    password_file: Path,
    first_access: str,
    more: str,
    user: str,
    status: int,
    note: str,
) -> None:
    with running_slapd(tmp_path / "slapd", ca, ENTRIES, first_access=first_access) as slapd:
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=more)
        found, output = run(config, "corp", user)
    assert note in output
    assert found == status


@pytest.mark.parametrize("more", ["", "    disabled_users: refuse\n"])
def test_nothing_is_said_about_what_is_visible(
    tmp_path: Path, ca: trustme.CA, ca_file: Path, password_file: Path, more: str
) -> None:
    with running_slapd(tmp_path / "slapd", ca, ENTRIES) as slapd:
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=more)
        status, output = run(config, "corp", "alice")
    assert status == 0
    assert "note:" not in output
    assert "warning:" not in output


@pytest.mark.parametrize("level", ["none", "search"])
@pytest.mark.parametrize("is_locked", [True, False])
def test_a_warning_of_accounts_whose_lock_may_not_be_read(
    tmp_path: Path, ca: trustme.CA, ca_file: Path, password_file: Path, level: str, is_locked: bool
) -> None:
    """The user keeps the groups, and the exit status stays. Other attributes are visible."""
    hidden = access(f"dn.subtree={PEOPLE} attrs=pwdAccountLockedTime", level)
    with running_slapd(
        tmp_path / "slapd", ca, ENTRIES + person("gone"), first_access=hidden
    ) as slapd:
        if is_locked:
            lock = ("add: pwdAccountLockedTime", "pwdAccountLockedTime: 000001010000Z")
            slapd.modify(change(dn("alice"), *lock))
        slapd.modify(change(dn("gone"), "add: pwdEndTime", "pwdEndTime: 20200101000000Z"))
        refuse = "    disabled_users: refuse\n"
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=refuse)
        status, output = run(config, "corp", "alice")
    assert status == 0
    assert "groups (1): data" in output
    warning = (
        "  warning: no value of pwdAccountLockedTime of the user is visible: if the bind account "
        "has no permission to read them, disabled accounts keep their groups\n"
    )
    # Who may search for the lock sees that an account has none.
    assert (warning in output) is (is_locked or level == "none")


@rows
def test_dynamic_groups(
    tmp_path: Path,
    ca: trustme.CA,
    ca_file: Path,
    password_file: Path,
    more: dict[str, Any],
    groups: str,
    note: str,
) -> None:
    settings_of_groups = "".join(f"    {key}: {value}\n" for key, value in more.items())
    with running_slapd(tmp_path / "slapd", ca, ENTRIES + DYNAMIC, **DYNLIST) as slapd:
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=settings_of_groups)
        _, output = run(config, "corp", "alice")
    assert groups in output
    about = [line for line in output.splitlines() if "memberOf lists" in line]
    assert all(f"such as 'cn=dynamic,{GROUPS}'" in line for line in about)
    assert note in "".join(about)
    assert bool(note) is bool(about)


@pytest.mark.parametrize(
    ("first_access", "more", "notes"),
    [
        (
            access(f"dn.exact=cn=g29,{GROUPS} attrs=objectClass", "none"),
            {},
            [
                "has no permission to read its objectClass",
                "it has the object classes groupOfURLs",
                "set groups_from: member_of to count them",
            ],
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=member", "search"),
            {},
            [
                "the bind account may search for member, but not read it",
                "set groups_from: member_of to count them",
            ],
        ),
        (
            access(f"dn.subtree={GROUPS} attrs=member", "none"),
            {},
            ["no group below group_base has a value of member that is visible"],
        ),
        (
            "",
            {"groups_from": "member_of", "changes": "syncrepl"},
            [f"memberOf lists 1 group with memberURL or without a visible member, such as '{AT}'"],
        ),
        (
            "",
            {"group_filter": "(cn=*)", "changes": "syncrepl"},
            [f"memberOf lists 1 group with memberURL or without a visible member, such as '{AT}'"],
        ),
    ],
    ids=["a hidden class", "members to search", "hidden members", "member_of", "any group"],
)
def test_a_user_of_many_groups(
    tmp_path: Path,
    ca: trustme.CA,
    ca_file: Path,
    password_file: Path,
    first_access: str,
    more: dict[str, str],
    notes: list[str],
) -> None:
    """The user is in 30 groups and a dynamic one; each note is given, whatever else is hidden."""
    settings_of_groups = "".join(f"    {key}: {value}\n" for key, value in more.items())
    with running_slapd(
        tmp_path / "slapd", ca, MANY + DYNAMIC, first_access=first_access, **DYNLIST
    ) as slapd:
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=settings_of_groups)
        _, output = run(config, "corp", "alice")
    assert not [note for note in notes if note not in output], output
