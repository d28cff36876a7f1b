"""What the driver's errors mean for us."""

import re
from collections.abc import Mapping
from typing import Any, Final

import ldap

from queuegate_server.identity.resolvers.ldap.errors import (
    BindRefused,
    LdapFault,
    ServerFault,
    SetupFault,
)


class TooManyEntries(LdapFault):
    """The server would have to cut the answer."""


class NoSuchEntry(SetupFault):
    """The DN that the search begins at does not exist, or may not be seen."""


_TOO_MANY: Final = (ldap.SIZELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED)
_TRY_ANOTHER: Final = (
    ldap.SERVER_DOWN,
    ldap.CONNECT_ERROR,
    ldap.TIMEOUT,
    ldap.TIMELIMIT_EXCEEDED,
    ldap.BUSY,
    ldap.UNAVAILABLE,
    ldap.OTHER,
    ldap.DECODING_ERROR,
    ldap.LOCAL_ERROR,
    ldap.PROTOCOL_ERROR,
)
_REFUSED: Final = (
    ldap.INVALID_CREDENTIALS,
    ldap.INAPPROPRIATE_AUTH,
    ldap.STRONG_AUTH_REQUIRED,
    ldap.STRONG_AUTH_NOT_SUPPORTED,
    ldap.AUTH_UNKNOWN,
)
_ADVICE: Final[Mapping[type[Exception], str]] = {
    ldap.INVALID_CREDENTIALS: "check bind_dn and the password in bind_password_file",
    ldap.INSUFFICIENT_ACCESS: "give the bind account the right to search and read there; "
    "or its password has expired",
    ldap.OPERATIONS_ERROR: "Active Directory says so before a successful bind: check bind and "
    "bind_dn",
    ldap.STRONG_AUTH_REQUIRED: "the directory wants TLS: use ldaps:// or start_tls: true",
    ldap.INAPPROPRIATE_AUTH: "the account has no password, or anonymous binds are off",
    ldap.CONFIDENTIALITY_REQUIRED: "the directory wants TLS: use ldaps:// or start_tls: true",
    ldap.UNWILLING_TO_PERFORM: "the directory refuses the request as it is",
    ldap.FILTER_ERROR: "check user_filter and group_filter",
    ldap.INVALID_DN_SYNTAX: "check user_base, group_base and bind_dn",
}
_AD_CODE: Final = re.compile(r"data ([0-9a-f]{3})\b")
_AD_REASONS: Final[Mapping[str, str]] = {
    "525": "the account does not exist",
    "52e": "wrong password",
    "530": "the account may not log on at this time",
    "531": "the account may not log on from here",
    "532": "the password has expired",
    "533": "the account is disabled",
    "701": "the account has expired",
    "773": "the password must be changed first",
    "775": "the account is locked",
}
"""What Active Directory adds to code 49."""


def message_id(error: Any) -> int:
    """Return which request an error of the driver answers; 0 if none."""
    found = _facts(error).get("msgid", 0)
    return found if isinstance(found, int) and found > 0 else 0


def fault(error: Any) -> LdapFault:
    """Return our fault for an error of the driver."""
    kind = type(error)
    detail, advice = _text(error), _ADVICE.get(kind, "")
    if isinstance(error, _TOO_MANY):
        return TooManyEntries(f"the server cuts the answer: {detail}", "raise its size limit")
    if isinstance(error, _REFUSED):
        return BindRefused(f"the server refuses our credentials: {detail}", advice)
    if isinstance(error, _TRY_ANOTHER):
        return ServerFault(f"the server failed: {detail}", advice)
    if isinstance(error, ldap.NO_SUCH_OBJECT):
        return NoSuchEntry(
            f"the base of the search does not exist or may not be seen: {detail}",
            "check user_base and group_base, and what the bind account may see",
        )
    return SetupFault(f"the server refuses the request: {detail}", advice)


def _text(error: Any) -> str:
    facts = _facts(error)
    name = str(facts.get("desc", type(error).__name__))
    code = facts.get("result")
    info = str(facts.get("info", ""))[:200]
    parts = [f"{name} ({code})" if isinstance(code, int) and code > 0 else name]
    match = _AD_CODE.search(info)
    if match and match[1] in _AD_REASONS:
        parts.append(_AD_REASONS[match[1]])
    elif info.isprintable() and info:
        parts.append(info)
    return ", ".join(parts)


def _facts(error: Any) -> Mapping[str, Any]:
    # ldap.TIMEOUT comes without any.
    first = error.args[0] if error.args else None
    return first if isinstance(first, Mapping) else {}
