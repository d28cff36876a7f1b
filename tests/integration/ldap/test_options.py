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
from tests.support.rows import rows


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


@rows
def test_fault(tmp_path: Path, more: dict[str, Any], fault: str) -> None:
    found = faults(tmp_path, **more)
    assert any(fault in line for line in found), found
    assert "hunter2" not in "".join(found)


@rows
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


@rows
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
