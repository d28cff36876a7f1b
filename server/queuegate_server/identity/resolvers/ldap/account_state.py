"""Whether a user's account is disabled or has expired, as shown by attributes of the user's entry.

The attributes are read and then judged. A filter on them would make all users unknown if the bind
account may not read them. The attributes and their meaning are those of SSSD's options
`ldap_account_expire_policy` (`shadow`, `ad`, `389ds`) and `ldap_access_order` (`lockout`), the date
at which a FreeIPA principal expires, and the end of an account in OpenLDAP.

Accounts that wrong passwords have locked count as enabled, because anyone could lock them
(`lockoutTime`, `accountUnlockTime`, `krbLoginFailedCount`). So do accounts whose password has
expired.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from queuegate_server.identity.resolver import NoSuchUser
from queuegate_server.identity.resolvers.ldap.entries import LdapEntry
from queuegate_server.identity.resolvers.ldap.ldap_faults import UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions

USER_ACCOUNT_CONTROL: Final = "userAccountControl"
_ACCOUNT_EXPIRES: Final = "accountExpires"
ACTIVE_DIRECTORY_ATTRIBUTES: Final = (USER_ACCOUNT_CONTROL, _ACCOUNT_EXPIRES)
_DISABLED_FLAG: Final = 2
"""ADS_UF_ACCOUNT_DISABLE (MS-ADTS 2.2.16)."""
_NEVER: Final = (0, 2**63 - 1)
"""The values of accountExpires for accounts that never expire (MS-ADTS, msDS-User-Account-Control-
Computed; MS-ADA1 2.1)."""
_FILETIME_SECONDS: Final = 11_644_473_600
"""The seconds between the epochs of FILETIME (1601) and Unix (1970)."""
_FILETIME_TICKS: Final = 10_000_000
_LOCKED_FOREVER: Final = "000001010000Z"
"""The value of pwdAccountLockedTime if an administrator has locked the account
(draft-behera-ldap-password-policy, 5.3.3)."""
_DAY_SECONDS: Final = 86_400
_MAX_CHARS: Final = 64
_GENERALIZED_TIME: Final = re.compile(
    r"(?P<hour>[0-9]{10})(?P<minute>[0-9]{2})?(?P<second>[0-9]{2})?(?:[.,][0-9]+)?"
    r"(?:Z|(?P<zone>[+-][0-9]{2})(?P<minutes>[0-9]{2})?)"
)
"""A time (RFC 4517, 3.3.13)."""

_IsRefused = Callable[[str, float], bool]
"""Returns whether an account is refused, by the attribute's value and the time, in Unix seconds.
Raises ValueError for an invalid value."""


def _has_disabled_flag(value: str, _now: float) -> bool:
    return bool(int(value) & _DISABLED_FLAG)


def _has_expired_in_active_directory(value: str, now: float) -> bool:
    ticks = int(value)
    return ticks not in _NEVER and ticks / _FILETIME_TICKS - _FILETIME_SECONDS <= now


def _is_true(value: str, _now: float) -> bool:
    return value.casefold() == "true"


def _has_expired(value: str, now: float) -> bool:
    return _generalized_time(value) <= now


def _has_expired_in_kerberos(value: str, now: float) -> bool:
    """The KDC stores Unix seconds; 0 means never (MIT Kerberos, `validate_as_request`)."""
    expires = _generalized_time(value)
    return expires != 0 and expires <= now


def _is_locked_forever(value: str, _now: float) -> bool:
    return value == _LOCKED_FOREVER


def _has_expired_on_day(value: str, now: float) -> bool:
    return 0 <= int(value) <= math.floor(now / _DAY_SECONDS)


_RULES: Final[Mapping[str, tuple[_IsRefused, str]]] = {
    # Active Directory.
    USER_ACCOUNT_CONTROL: (_has_disabled_flag, "is disabled"),
    _ACCOUNT_EXPIRES: (_has_expired_in_active_directory, "has expired"),
    # 389 Directory Server and FreeIPA.
    "nsAccountLock": (_is_true, "is disabled"),
    "krbPrincipalExpiration": (_has_expired_in_kerberos, "has expired"),
    # OpenLDAP with the overlay ppolicy, and the schema of shadow(5); -1 means never.
    "pwdAccountLockedTime": (_is_locked_forever, "is locked by an administrator"),
    "pwdEndTime": (_has_expired, "has expired"),
    "shadowExpire": (_has_expired_on_day, "has expired"),
}
ACCOUNT_ATTRIBUTES: Final = tuple(_RULES)
NOT_IN_ACTIVE_DIRECTORY: Final = frozenset(
    {"nsAccountLock", "krbPrincipalExpiration", "pwdAccountLockedTime", "pwdEndTime"}
)
"""Attributes that the schema of Active Directory lacks (MS-ADA1 to MS-ADA3). A Samba domain
controller rejects DirSync searches for them."""


def account_attributes(options: LdapOptions) -> tuple[str, ...]:
    """Return the user attributes that tell whether an account is disabled; none if this does not
    matter.
    """
    return ACCOUNT_ATTRIBUTES if options.disabled_users == "refuse" else ()


def why_refused(user: LdapEntry, options: LdapOptions, now: float) -> NoSuchUser | None:
    """Return the outcome for a user whose account is disabled or has expired; None for other users.

    Args:
        user: The user's entry, with `account_attributes`.
        options: The settings. With `disabled_users: keep`, nobody is refused.
        now: The time, in Unix seconds.

    Raises UnusableData if the value of an attribute is invalid.
    """
    for attribute in account_attributes(options):
        is_refused, state = _RULES[attribute]
        for value in user.values(attribute):
            try:
                refused = is_refused(_text(value), now)
            except ValueError:
                raise UnusableData(
                    f"the user's entry has an invalid {attribute}",
                    "correct it, or set disabled_users: keep",
                ) from None
            if refused:
                detail = f"the user's account {state} ({attribute})"
                return NoSuchUser(detail, is_final=True)
    return None


def _text(value: bytes) -> str:
    if len(value) > _MAX_CHARS:
        raise ValueError("too long")
    return value.decode("ascii")


def _generalized_time(value: str) -> float:
    """Return a time (RFC 4517, 3.3.13) in Unix seconds, without fractions. Raises ValueError."""
    match = _GENERALIZED_TIME.fullmatch(value)
    if match is None:
        raise ValueError("no time")
    hour, minute = match["hour"], match["minute"] or "00"
    # Python has no leap seconds, so treat one as the first second of the next minute.
    seconds = int(match["second"] or 0)
    begin = datetime.strptime(f"{hour}{minute}+0000", "%Y%m%d%H%M%z").timestamp()
    sign = -1 if (match["zone"] or "").startswith("-") else 1
    offset = int(match["zone"] or 0) * 3600 + sign * int(match["minutes"] or 0) * 60
    return begin + seconds - offset
