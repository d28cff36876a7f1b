"""Validated types for the `ldap` resolver's settings.

Errors do not quote values, because a secret may have been set under the wrong key. The caller adds
the key to the message.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from queuegate_server.config_fields import check_file, check_not_empty, check_with, distinct
from queuegate_server.identity.resolvers.ldap.discovery import is_domain, is_host, parse_url
from queuegate_server.identity.resolvers.ldap.filter_syntax import (
    BadFilter,
    assertions,
    parenthesize,
)
from queuegate_server.identity.resolvers.ldap.filters import UserFilter

MAX_DN_CHARS: Final = 4096
_ATTRIBUTE_TYPE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)"
_ESCAPED_CHAR: Final = r'\\(?:[ "#+,;<=>\\]|[0-9A-Fa-f]{2})'
_PLAIN_CHAR: Final = r'[^\0"+,;<>\\]'
_VALUE: Final = rf"(?:#(?:[0-9A-Fa-f]{{2}})+|(?![ #])(?:{_PLAIN_CHAR}|{_ESCAPED_CHAR})*|)"
_RDN: Final = rf" *{_ATTRIBUTE_TYPE} *= *{_VALUE} *"
_DN: Final = re.compile(rf"{_RDN}(?:[+,]{_RDN})*")
_LOGIN_NAME: Final = re.compile(r"[^\0\s@=,]+@[^\0\s@=,]+|[^\0\s\\=,]+\\[^\0\\=,]+")
_CACHE: Final = re.compile(r"(?:(?:FILE|DIR|KCM|KEYRING|MEMORY|API):.*|[^:]+)", re.DOTALL)
_KEYTAB_VERSIONS: Final = (b"\5\1", b"\5\2")


def is_dn(text: str) -> bool:
    """Return whether a string is a distinguished name (RFC 4514) or empty (the root DN)."""
    return len(text) <= MAX_DN_CHARS and (not text or _DN.fullmatch(text) is not None)


def _require(is_valid: Callable[[str], object], message: str) -> AfterValidator:
    def check(value: str) -> str:
        if not is_valid(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _is_bind_name(value: str) -> object:
    return value and (is_dn(value) or _LOGIN_NAME.fullmatch(value))


def _check_keytab(content: bytes) -> None:
    if not content.startswith(_KEYTAB_VERSIONS):
        raise ValueError("the file is not a keytab")


def _filter(parse: Callable[[str], object], what: str) -> AfterValidator:
    def check(value: str) -> str:
        try:
            parse(parenthesize(value))
        except BadFilter as error:
            raise ValueError(f"is not a valid {what}: it {error}") from None
        return parenthesize(value)

    return AfterValidator(check)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


BaseDn = Annotated[
    str, _require(is_dn, "is not a DN: expected something like ou=people,dc=example,dc=com")
]
BaseDns = Annotated[
    tuple[BaseDn, ...],
    BeforeValidator(_as_list),
    Field(min_length=1, max_length=16),
    distinct("DN"),
]
Attribute = Annotated[
    str, _require(re.compile(_ATTRIBUTE_TYPE).fullmatch, "is not an attribute name")
]
Attributes = Annotated[
    tuple[Attribute, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=8)
]
GroupFilter = Annotated[str, _filter(assertions, "filter")]
UserFilterText = Annotated[str, _filter(UserFilter, "user filter")]
ReadableFile = Annotated[Path, check_file(check_not_empty)]
Keytab = Annotated[Path, check_file(_check_keytab)]
TicketCache = Annotated[
    str, _require(_CACHE.fullmatch, "is not a Kerberos ticket cache: write FILE:/path")
]
Url = Annotated[str, check_with(parse_url)]
Urls = Annotated[tuple[Url, ...], distinct("URL")]
Domain = Annotated[str, _require(is_domain, "is not a domain")]
Host = Annotated[str, _require(is_host, "is not a host name")]
BindName = Annotated[str, _require(_is_bind_name, "must be a DN, user@domain or DOMAIN\\user")]
