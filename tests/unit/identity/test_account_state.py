"""Which values of which attributes mean that an account is disabled or has expired."""

from datetime import UTC, datetime
from typing import Any

import pytest

from queuegate_server.identity.resolver import NoSuchUser
from queuegate_server.identity.resolvers.ldap.account_state import (
    ACCOUNT_ATTRIBUTES,
    account_attributes,
    why_refused,
)
from queuegate_server.identity.resolvers.ldap.entries import LdapEntry
from queuegate_server.identity.resolvers.ldap.ldap_faults import UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from tests.support.rows import rows

NOW = datetime(2026, 6, 15, 12, 0, 30, tzinfo=UTC).timestamp()
TICKS = int((NOW + 11_644_473_600) * 10_000_000)
TODAY = int(NOW // 86_400)


def options(**more: Any) -> LdapOptions:
    given = {"urls": ["ldaps://a"], "bind": "anonymous", "user_base": "o=a", "group_base": "o=a"}
    return LdapOptions.model_validate(given | {"disabled_users": "refuse"} | more)


def refusal(attribute: str, *values: str, **more: Any) -> str:
    """Return why an entry with these values is refused; empty if it is not."""
    entry = LdapEntry("uid=a", {attribute: [value.encode() for value in values]})
    outcome = why_refused(entry, options(**more), NOW)
    assert outcome is None or isinstance(outcome, NoSuchUser)
    return outcome.detail if outcome else ""


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("userAccountControl", "514"),
        ("USERACCOUNTCONTROL", "2"),
        ("userAccountControl", str(0x10202 - 2**32)),
        ("accountExpires", "1"),
        ("accountExpires", str(TICKS)),
        ("nsAccountLock", "TRUE"),
        ("nsAccountLock", "true"),
        ("krbPrincipalExpiration", "20260615120030Z"),
        ("krbPrincipalExpiration", "20260615120030.9Z"),
        ("krbPrincipalExpiration", "202606151200Z"),
        ("krbPrincipalExpiration", "2026061512Z"),
        ("krbPrincipalExpiration", "20260615130030+0100"),
        ("krbPrincipalExpiration", "20260615133030+0130"),
        ("krbPrincipalExpiration", "20260615110030-01"),
        ("krbPrincipalExpiration", "20260615115960Z"),
        ("krbPrincipalExpiration", "19700101000001Z"),
        ("pwdAccountLockedTime", "000001010000Z"),
        ("pwdEndTime", "19700101000000Z"),
        ("shadowExpire", "0"),
        ("shadowExpire", str(TODAY)),
    ],
)
def test_refused(attribute: str, value: str) -> None:
    assert attribute.lower() in refusal(attribute, value).lower()
    assert refusal(attribute, value, disabled_users="keep") == ""


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        ("userAccountControl", ["512"]),
        ("userAccountControl", ["16"]),  # locked by wrong passwords
        ("userAccountControl", []),
        ("accountExpires", ["0"]),
        ("accountExpires", ["9223372036854775807"]),
        ("accountExpires", [str(TICKS + 10_000_000)]),
        ("lockoutTime", ["1"]),
        ("nsAccountLock", ["FALSE"]),
        ("accountUnlockTime", ["20300101000000Z"]),
        ("krbPrincipalExpiration", ["20260615120031Z"]),
        ("krbPrincipalExpiration", ["20260615120030-0030"]),
        ("krbPrincipalExpiration", ["99991231235959Z"]),
        ("krbPrincipalExpiration", ["19700101000000Z"]),  # never
        ("krbPrincipalExpiration", ["197001010100+0100"]),
        ("krbPasswordExpiration", ["20200101000000Z"]),
        ("pwdAccountLockedTime", ["20260615120000Z"]),
        ("pwdEndTime", ["20260615120031Z"]),
        ("shadowExpire", ["-1"]),
        ("shadowExpire", [str(TODAY + 1)]),
    ],
)
def test_kept(attribute: str, values: list[str]) -> None:
    assert refusal(attribute, *values) == ""


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("userAccountControl", ""),
        ("userAccountControl", "0x202"),
        ("userAccountControl", "9" * 100_000),
        ("accountExpires", "never"),
        ("krbPrincipalExpiration", "20260615120030"),
        ("krbPrincipalExpiration", "20261315120030Z"),
        ("krbPrincipalExpiration", "2026-06-15T12:00:30Z"),
        ("shadowExpire", "\xe9"),
    ],
)
def test_invalid_values_fail_the_lookup(attribute: str, value: str) -> None:
    with pytest.raises(UnusableData, match=attribute):
        refusal(attribute, value)


@rows
def test_presets(preset: str | None, refused: bool) -> None:
    assert account_attributes(options(preset=preset)) == ACCOUNT_ATTRIBUTES
    default = LdapOptions.model_validate(
        {"urls": ["ldaps://a"], "bind": "anonymous", "user_base": "o=a", "group_base": "o=a"}
        | {"preset": preset}
    )
    assert bool(account_attributes(default)) is refused
