"""Directory faults, and a function that converts driver errors to faults.

Messages contain no secrets. Driver errors are identified by class name, so that this module need
not import the driver.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from queuegate_server.files.toml import read_toml
from queuegate_server.identity.secret_masking import mask
from queuegate_server.identity.source_fault import SourceFault


class LdapFault(SourceFault):
    """A directory query failed."""


class ServerFault(LdapFault):
    """One server failed; another server or a new connection may work."""


class TooManyRequests(LdapFault):
    """Too many requests are in progress on the connection. The server was not queried."""


class BadCredentials(ServerFault):
    """The server rejected the credentials. Retrying may lock the account."""


class SetupFault(LdapFault):
    """The query will fail until the configuration of the directory or this server is corrected."""


class UnusableData(SetupFault):
    """The directory's data about a user must not be used. Other users are not affected.

    Every fault that depends on the entries of users and groups is of this class. Otherwise, anyone
    who may edit some of them could open the circuit breaker.
    """


class NoSuchEntry(SetupFault):
    """The search base does not exist or is not visible to the bind account."""


class AccessDenied(SetupFault):
    """The bind account lacks a right."""


class TooManyEntries(LdapFault):
    """The result exceeds the server's or the request's size limit."""

    received = 0
    """The number of entries received before the limit was reached."""


_FAULTS: Final[Mapping[str, tuple[type[LdapFault], str]]] = {
    **dict.fromkeys(
        ("SIZELIMIT_EXCEEDED", "ADMINLIMIT_EXCEEDED"),
        (TooManyEntries, "the result exceeds the server's size limit"),
    ),
    **dict.fromkeys(
        ("INVALID_CREDENTIALS", "INAPPROPRIATE_AUTH", "AUTH_UNKNOWN", "STRONG_AUTH_REQUIRED",
         "STRONG_AUTH_NOT_SUPPORTED"),
        (BadCredentials, "the server rejected the credentials"),
    ),
    **dict.fromkeys(
        ("SERVER_DOWN", "CONNECT_ERROR", "TIMEOUT", "TIMELIMIT_EXCEEDED", "BUSY", "UNAVAILABLE",
         "OTHER", "DECODING_ERROR", "LOCAL_ERROR", "PROTOCOL_ERROR"),
        (ServerFault, "the server failed"),
    ),
    "NO_SUCH_OBJECT": (NoSuchEntry, "the search base does not exist or is not visible"),
    "INSUFFICIENT_ACCESS": (AccessDenied, "the server refused the request"),
}  # fmt: skip
_OTHER_FAULT: Final = (SetupFault, "the server refused the request")
_TABLES: Final = read_toml(__file__, "advice.toml")
_ADVICE: Final[Mapping[str, str]] = _TABLES["advice"]
_AD_CODE: Final = re.compile(r"data ([0-9a-f]{3})\b")
_AD_REASONS: Final[Mapping[str, str]] = _TABLES["active_directory"]
"""Reasons for result code 49 (invalid credentials) in Active Directory, by subcode."""
TICKET_FAULTS: Final[Mapping[str, Mapping[str, str]]] = _TABLES["kerberos"]
"""What fails in a Kerberos bind, and what to do."""
_MAX_INFO_CHARS: Final = 200


def unreadable_response(error: Exception) -> ServerFault:
    """Return the fault for a response that cannot be decoded."""
    return ServerFault(f"the server sent an unreadable response: {type(error).__name__}")


def message_id(error: Exception) -> int:
    """Return the message id in a driver error; 0 if there is none."""
    number = _facts(error).get("msgid", 0)
    return number if isinstance(number, int) and number > 0 else 0


def to_fault(error: Exception, secret: str = "") -> LdapFault:
    """Convert a driver error to a fault, whose message does not contain the secret."""
    name = type(error).__name__
    info = str(_facts(error).get("info", ""))
    info = mask(info, (secret,))
    if name == "REFERRAL":
        return _referral(error, info)
    fault, what = _FAULTS.get(name, _OTHER_FAULT)
    return fault(f"{what}: {_describe(error, info)}", _ADVICE.get(name, ""))


def _referral(error: Exception, info: str) -> SetupFault:
    urls = [line for line in info.splitlines() if line.isprintable() and "://" in line]
    where = ", ".join(urls)[:_MAX_INFO_CHARS] or "another server, without naming it"
    return SetupFault(
        f"the server refers to {where}: {_describe(error, info)}",
        "it does not hold the base that was searched, and referrals are not followed: correct "
        "user_base or group_base, or add the server that holds it to urls; for several domains "
        "of Active Directory, use the ports 3268 and 3269 of a global catalog",
    )


def _describe(error: Exception, info: str) -> str:
    facts = _facts(error)
    name = str(facts.get("desc", type(error).__name__))
    code = facts.get("result")
    info = info[:_MAX_INFO_CHARS]
    parts = [f"{name} ({code})" if isinstance(code, int) and code > 0 else name]
    match = _AD_CODE.search(info)
    if match and match[1] in _AD_REASONS:
        parts.append(_AD_REASONS[match[1]])
    elif info.isprintable() and info:
        parts.append(info)
    return ", ".join(parts)


def _facts(error: Exception) -> Mapping[str, Any]:
    # Some errors, such as ldap.TIMEOUT, have no arguments.
    first = error.args[0] if error.args else None
    return first if isinstance(first, Mapping) else {}
