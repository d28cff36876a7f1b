"""Faults of the settings, which `validate` reports."""

import os
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.identity.resolvers.ldap.filter_syntax import BadFilter, assertions
from queuegate_server.identity.resolvers.ldap.filters import UserFilter, escape
from queuegate_server.identity.resolvers.ldap.option_types import is_dn
from queuegate_server.settings.load import SettingsError, load_settings


def faults(tmp_path: Path, **more: Any) -> list[str]:
    """Return what loading settings with one LDAP resolver finds."""
    password = tmp_path / "password"
    password.write_text("secret\n")
    options = {
        "type": "ldap",
        "urls": "[ldaps://127.0.0.1]",
        "bind_dn": "cn=svc,dc=a",
        "bind_password_file": str(password),
        "user_base": "dc=a",
        "group_base": "dc=a",
    } | more
    lines = [f"    {key}: {value}" for key, value in options.items() if value is not None]
    file = tmp_path / "queuegate.yaml"
    file.write_text("\n".join(["resolvers:", "  corp:", *lines]))
    try:
        load_settings(file)
    except SettingsError as error:
        return [str(diagnostic).removeprefix(f"{file}:") for diagnostic in error.diagnostics]
    return []


def test_good_settings(tmp_path: Path) -> None:
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"urls": "[http://a]"}, "urls[0]: must begin with ldap:// or ldaps://"),
        ({"urls": "['ldap://']"}, "names no host"),
        ({"urls": "['ldap://a:99999']"}, "port that is not between"),
        ({"urls": "['ldap://a/dc=a']"}, "host and port only"),
        ({"urls": "['ldap://u:hunter2@a']"}, "urls[0]: must not contain credentials"),
        ({"urls": "[ldaps://a, ldaps://a]"}, "is listed twice"),
        ({"urls": None}, "set either urls or discover"),
        ({"discover": "example.com"}, "set either urls or discover"),
        ({"urls": "['ldap://a..b']"}, "has a host that is neither a name nor an address"),
        ({"urls": "['ldap://[::g]']"}, "has a host that is not an IPv6 address"),
        ({"urls": "['ldap://1.2.3']", "tls_server_name": "a b"}, "is not a host name"),
        ({"tls_server_name": "a..b"}, "is not a host name"),
        ({"tls_server_name": "''"}, "is not a host name"),
        ({"urls": None, "discover": "'a b'"}, "is not a domain"),
        ({"user_base": "nonsense"}, "user_base: is not a DN: write"),
        ({"user_base": "'ou=a,,dc=b'"}, "is not a DN"),
        ({"user_base": "'ou=a\\,dc=b,'"}, "is not a DN"),
        ({"user_base": None}, "user_base: is required"),
        ({"group_base": "x"}, "is not a DN"),
        ({"group_base": None}, "group_base is required"),
        ({"user_filter": "'(uid=x)'"}, "does not compare anything with the user"),
        ({"user_filter": "'(uid={user}'"}, "needs `)` at character 12"),
        ({"user_filter": "'(&(uid={user})))'"}, "continues after its last parenthesis"),
        ({"user_filter": "'(uid>={user})'"}, "for equality"),
        ({"user_filter": "'(uid=*{user}*)'"}, "for equality"),
        ({"user_filter": "'(|(uid={user})(mail=%s))'"}, "mixes %s and {user}"),
        ({"user_filter": "'({user}=a)'"}, "at character 2"),
        ({"user_filter": "'(&(uid=\\zz)(uid={user}))'"}, "needs `)`"),
        ({"user_filter": "'(&)'"}, "does not compare anything"),
        ({"group_filter": "'(objectClass=a'"}, "is not a valid filter"),
        ({"group_filter": "'((a=b))'"}, "is not a valid filter"),
        ({"member_attribute": "'a)(b'"}, "is not an attribute name"),
        ({"bind_dn": "svc"}, "must be a DN, user@domain or DOMAIN\\user"),
        ({"bind_dn": None}, "bind_dn and bind_password_file are required"),
        ({"bind": "anonymous"}, "cannot be used with bind: anonymous"),
        (
            {"bind_password_file": "/nowhere"},
            "the file cannot be read: No such file or directory: check",
        ),
        ({"bind_password_file": "hunter2"}, "bind_password_file: the file cannot be read: No such"),
        ({"bind_dn": "hunter2"}, "bind_dn: must be a DN"),
        ({"user_base": "hunter2"}, "user_base: is not a DN"),
        ({"ca_file": "/nowhere"}, "ca_file: the file cannot be read: No such file"),
        ({"cert_file": "/nowhere"}, "cert_file: the file cannot be read: No such file"),
        ({"bind": "external", "bind_dn": None, "bind_password_file": None}, "needs cert_file"),
        ({"bind": "gssapi"}, "cannot be used with bind: gssapi"),
        ({"keytab_file": "/nowhere"}, "keytab_file: the file cannot be read: No such file"),
        ({"keytab_file": __file__}, "keytab_file: the file is not a keytab"),
        ({"credentials_cache": "FILE:/x"}, "cannot be used with bind: simple"),
        ({"credentials_cache": "FLIE:/x"}, "is not a Kerberos ticket cache: write FILE:/path"),
        (
            {
                "bind": "gssapi",
                "bind_dn": None,
                "bind_password_file": None,
                "urls": "['ldap://a']",
                "start_tls": "false",
            },
            "bind: gssapi needs ldaps:// or start_tls: true",
        ),
        ({"urls": "['ldap://a']", "start_tls": "false"}, "without encryption"),
        ({"nested": "walk", "groups_from": "member_uid"}, "nested cannot be used"),
        ({"nested_depth": 0}, "must be at least 1"),
        ({"more_groups": "[{group_filter: x}]"}, "more_groups[0].group_filter: is not a valid"),
        ({"more_groups": "[{nested: walk}]"}, "more_groups[0].nested: unknown key"),
        ({"more_groups": "[{preset: nds}]"}, "more_groups[0].preset: must be"),
        ({"more_groups": "[{groups_frm: member_of}]"}, "did you mean groups_from?"),
        ({"more_groups": f"[{'{}, ' * 8}]"}, "more_groups: "),
        (
            {"groups_from": "member_of", "group_base": None, "more_groups": "[{preset: posix}]"},
            "group_base is required",
        ),
        (
            {"unique_group_names": True, "groups_from": "member_of", "group_base": None},
            "unique_group_names: true needs a group_base for each kind of group",
        ),
        (
            {"unique_group_names": True, "more_groups": "[{group_name_from: rdn}]"},
            "unique_group_names: true cannot be used with group_name_from: rdn",
        ),
        ({"max_queued": 3}, "max_queued: this setting was removed: 1024 always applies"),
        ({"preset": "novell"}, "preset: must be"),
        ({"secrets_dir": "/nowhere"}, "secrets_dir cannot be read"),
        ({"bind_password": "hunter2"}, "bind_password: unknown key"),
    ],
)
def test_fault(tmp_path: Path, more: dict[str, Any], fault: str) -> None:
    found = faults(tmp_path, **more)
    assert any(fault in line for line in found), found
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize(
    "more",
    [
        {"urls": "['ldaps://dc1.example.com.', 'ldaps://a_b', 'ldaps://größe.example.com']"},
        {"urls": "['ldaps://10.0.0.1', 'ldaps://[::1]:1636', 'ldaps://[fe80::1%eth0]']"},
        {"tls_server_name": "10.0.0.1"},
        {"tls_server_name": "dc1.example.com"},
    ],
)
def test_hosts(tmp_path: Path, more: dict[str, Any]) -> None:
    assert faults(tmp_path, **more) == []


def test_files_with_the_wrong_content(tmp_path: Path, ca: trustme.CA) -> None:
    empty, text = tmp_path / "empty", tmp_path / "text"
    empty.write_text("\n")
    text.write_text("hello")
    assert "is empty" in faults(tmp_path, ca_file=empty)[0]
    assert "contains no certificates" in faults(tmp_path, ca_file=text)[0]
    leaf = ca.issue_cert("a")
    certificate, other = tmp_path / "a.pem", tmp_path / "b.pem"
    leaf.cert_chain_pems[0].write_to_path(str(certificate))
    ca.issue_cert("b").private_key_pem.write_to_path(str(other))
    assert "cert_file and key_file" in faults(tmp_path, cert_file=certificate)[0]
    wrong = faults(tmp_path, cert_file=certificate, key_file=other)
    assert "cannot be used" in wrong[0]


@pytest.mark.parametrize("preset", ["openldap", "389ds", "freeipa", "active_directory", "posix"])
def test_presets_are_valid_and_can_be_overridden(tmp_path: Path, preset: str) -> None:
    assert faults(tmp_path, preset=preset) == []
    assert faults(tmp_path, preset=preset, groups_from="member_of") == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("", True),
        ("dc=a", True),
        ("cn=Smith\\, Team (EU) #1,ou=x", True),
        ("cn=a\\2Cb,dc=c", True),
        ("cn=a+ou=b,dc=c", True),
        ("2.5.4.3=a", True),
        ("cn=#04024869", True),
        ("cn = a , dc = b", True),
        ("cn=größe", True),
        ("cn=", True),
        ("cn", False),
        ("cn=a,", False),
        (",cn=a", False),
        ("cn=a,,dc=b", False),
        ('cn="a"', False),
        ("cn=a\\", False),
        ("cn=a;b", False),
        ("cn=#0", False),
    ],
)
def test_distinguished_names(text: str, *, is_one: bool) -> None:
    assert is_dn(text) is is_one


def test_the_driver_agrees_on_names_and_filters() -> None:
    import ldap.dn

    for text in ("cn=Smith\\, Team (EU) #1,ou=x", "cn=a\\2Cb,dc=c", "cn=a+ou=b,dc=c", "cn=a b"):
        assert ldap.dn.is_dn(text)
        assert is_dn(text)


@given(st.text())
def test_an_escaped_value_is_one_value(text: str) -> None:
    [found] = assertions(f"(uid={escape(text)})")
    assert found.attribute == "uid"
    assert UserFilter("(uid={user})").expected(text) == (("uid", text),)


@given(st.text())
def test_names_do_not_change_the_structure_of_a_filter(text: str) -> None:
    template = "(&(objectClass=person)(|(uid={user})(mail={user}@a.test)))"
    filled = assertions(UserFilter(template).for_user(text))
    assert [(part.attribute, part.operator) for part in filled] == [
        ("objectClass", "="),
        ("uid", "="),
        ("mail", "="),
    ]


@given(st.text("(&|!)=*\\a1:;~<>", max_size=30))
def test_any_text_is_a_filter_or_a_fault(text: str) -> None:
    try:
        found = assertions(text)
    except BadFilter:
        return
    assert text.startswith("(")
    assert text.count("=") >= len(found)


def test_expected_values_are_unescaped() -> None:
    template = UserFilter("(|(uid={user})(mail={user}@a\\2etest))")
    assert template.expected("x") == (("uid", "x"), ("mail", "x@a.test"))


def test_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for key in ("bind_password_file", "ca_file"):
        (fault,) = faults(tmp_path, **{key: str(pipe)})
        assert f"{key}: the file cannot be read: not a regular file" in fault
