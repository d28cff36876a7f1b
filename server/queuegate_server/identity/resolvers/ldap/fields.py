"""Types of the settings of the resolver `ldap`: what each of them accepts.

Errors do not quote the value, which may be a secret at the wrong key: the caller shows its place.
"""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from queuegate_server.files.safe_open import read_regular
from queuegate_server.identity.resolvers.ldap.discovery import is_domain, is_host, parse_url
from queuegate_server.identity.resolvers.ldap.filters import (
    BadFilter,
    UserFilter,
    assertions,
    enclosed,
)

MAX_DN_CHARS: Final = 4096
_MAX_FILE_BYTES: Final = 65_536
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
    """Return whether a text is a distinguished name (RFC 4514); that of the root is empty."""
    return len(text) <= MAX_DN_CHARS and (not text or _DN.fullmatch(text) is not None)


def _check_dn(value: str) -> str:
    if not is_dn(value):
        raise ValueError("is not a DN: write it like ou=people,dc=example,dc=com")
    return value


def _check_attribute(value: str) -> str:
    if not re.fullmatch(_ATTRIBUTE_TYPE, value):
        raise ValueError("is not an attribute name")
    return value


def _check_file(value: Path) -> Path:
    if not _content(value).strip():
        raise ValueError("the file is empty")
    return value


def _check_keytab(value: Path) -> Path:
    if not _content(value).startswith(_KEYTAB_VERSIONS):
        raise ValueError("the file is not a keytab")
    return value


def _check_cache(value: str) -> str:
    if not _CACHE.fullmatch(value):
        raise ValueError("is not a Kerberos ticket cache: write FILE:/path")
    return value


def _content(file: Path) -> bytes:
    try:
        return read_regular(file, _MAX_FILE_BYTES)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None


def _check_url(value: str) -> str:
    parse_url(value)
    return value


def _check_urls(value: tuple[str, ...]) -> tuple[str, ...]:
    for position, url in enumerate(value):
        if url in value[:position]:
            raise ValueError(f"the URL {url} is listed twice")
    return value


def _check_bases(value: tuple[str, ...]) -> tuple[str, ...]:
    for position, dn in enumerate(value):
        if dn in value[:position]:
            raise ValueError(f"the DN {dn} is listed twice")
    return value


def _check_domain(value: str) -> str:
    if not is_domain(value):
        raise ValueError("is not a domain")
    return value


def _check_host(value: str) -> str:
    if not is_host(value):
        raise ValueError("is not a host name")
    return value


def _check_bind_name(value: str) -> str:
    if not value or not (is_dn(value) or _LOGIN_NAME.fullmatch(value)):
        raise ValueError("must be a DN, user@domain or DOMAIN\\user")
    return value


def _check_user_filter(value: str) -> str:
    try:
        UserFilter(value)
    except BadFilter as error:
        raise ValueError(f"is not a valid user filter: it {error}") from None
    return enclosed(value)


def _check_group_filter(value: str) -> str:
    try:
        assertions(enclosed(value))
    except BadFilter as error:
        raise ValueError(f"is not a valid filter: it {error}") from None
    return enclosed(value)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


BaseDn = Annotated[str, AfterValidator(_check_dn)]
BaseDns = Annotated[
    tuple[BaseDn, ...],
    BeforeValidator(_as_list),
    Field(min_length=1, max_length=16),
    AfterValidator(_check_bases),
]
Attribute = Annotated[str, AfterValidator(_check_attribute)]
Attributes = Annotated[
    tuple[Attribute, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=8)
]
GroupFilter = Annotated[str, AfterValidator(_check_group_filter)]
UserFilterText = Annotated[str, AfterValidator(_check_user_filter)]
ReadableFile = Annotated[Path, AfterValidator(_check_file)]
Keytab = Annotated[Path, AfterValidator(_check_keytab)]
TicketCache = Annotated[str, AfterValidator(_check_cache)]
Url = Annotated[str, AfterValidator(_check_url)]
Urls = Annotated[tuple[Url, ...], AfterValidator(_check_urls)]
Domain = Annotated[str, AfterValidator(_check_domain)]
Host = Annotated[str, AfterValidator(_check_host)]
BindName = Annotated[str, AfterValidator(_check_bind_name)]
