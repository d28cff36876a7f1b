"""Checks of the resolver's options, one fault a message; no driver, no network."""

import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queuegate_server.files.safe_open import read_regular
from queuegate_server.identity.resolvers.ldap.dn import is_dn, is_login
from queuegate_server.identity.resolvers.ldap.filters import (
    BadFilter,
    UserFilter,
    assertions,
    enclosed,
)
from queuegate_server.identity.resolvers.ldap.urls import parse_url

if TYPE_CHECKING:
    from queuegate_server.identity.resolvers.ldap.options import LdapOptions

_ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(\.[0-9]+)*")
_DOMAIN: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_MOST_PASSWORD: Final = 4096
_MOST_LOOKED_AT: Final = 65_536


def urls(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check the addresses of the servers."""
    for position, url in enumerate(value):
        try:
            parse_url(url)
        except ValueError as error:
            raise ValueError(f"the URL {url!r} {error}") from None
        if url in value[:position]:
            raise ValueError(f"the URL {url!r} is listed twice")
    return value


def domain(value: str | None) -> str | None:
    """Check the domain to discover servers in."""
    if value is not None and not _DOMAIN.fullmatch(value):
        raise ValueError("is not a domain")
    return value


def base(value: str | None) -> str | None:
    """Check the DN that a search begins at."""
    if value is not None and not is_dn(value):
        raise ValueError(f"is not a DN: {value!r}; write it like ou=people,dc=example,dc=com")
    return value


def bind_name(value: str | None) -> str | None:
    """Check who we bind as."""
    if value is not None and not (value and (is_dn(value) or is_login(value))):
        raise ValueError("is neither a DN nor user@domain nor DOMAIN\\user")
    return value


def user_filter(value: str) -> str:
    """Check the filter that finds a user."""
    try:
        UserFilter(value)
    except BadFilter as error:
        raise ValueError(f"is not a filter for users: it {error}") from None
    return enclosed(value)


def group_filter(value: str) -> str:
    """Check the filter that groups must match."""
    try:
        assertions(enclosed(value))
    except BadFilter as error:
        raise ValueError(f"is not a filter: it {error}") from None
    return enclosed(value)


def attribute(value: str) -> str:
    """Check the name of an attribute."""
    if not _ATTRIBUTE.fullmatch(value):
        raise ValueError(f"is not the name of an attribute: {value!r}")
    return value


def one_or_several(value: object) -> object:
    """Take a single name for a list of one."""
    return [value] if isinstance(value, str) else value


def attributes(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of attributes."""
    return tuple(map(attribute, value))


def readable_file(value: Path | None) -> Path | None:
    """Check that a file is there and holds something."""
    if value is not None:
        try:
            empty = not read_regular(value, _MOST_LOOKED_AT).strip()
        except OSError as error:
            raise ValueError(f"{value} cannot be read: {error.strerror}") from None
        if empty:
            raise ValueError(f"{value} is empty")
    return value


def read_password(file: Path, *, trimmed: bool = False) -> bytes:
    """Return the password of a file without one trailing newline, or `trimmed` of all white
    space around it. Blocks.

    Raises OSError if it cannot be read and ValueError if it is no password: an empty one
    would make the bind an anonymous one (RFC 4513, 5.1.2).
    """
    password = read_regular(file, _MOST_PASSWORD)
    password = password.strip() if trimmed else password.removesuffix(b"\n").removesuffix(b"\r")
    if not password or b"\0" in password or len(password) > _MOST_PASSWORD:
        raise ValueError(f"{file} holds no password")
    return password


def first_conflict(options: "LdapOptions") -> str:
    """Return what does not go together in the options, or nothing."""
    return next(_conflicts(options), "")


def _conflicts(options: "LdapOptions") -> Iterator[str]:
    if bool(options.urls) == bool(options.discover):
        yield "set either urls or discover"
    yield from _identity_conflicts(options)
    yield from _group_conflicts(options)
    if bool(options.cert_file) != bool(options.key_file):
        yield "cert_file and key_file go together"
    yield from _certificate_conflicts(options)


def _identity_conflicts(options: "LdapOptions") -> Iterator[str]:
    if options.bind == "simple":
        if not options.bind_dn or not options.bind_password_file:
            yield "bind_dn and bind_password_file are required; without them set bind: anonymous"
        if not options.allow_plaintext_bind and not _encrypted(options):
            yield (
                "the password would be sent without encryption: use ldaps:// or start_tls: true, "
                "or set allow_plaintext_bind: true"
            )
        if options.bind_password_file:
            try:
                read_password(options.bind_password_file, trimmed=options.trims_password)
            except (OSError, ValueError) as error:
                yield f"bind_password_file: {error}"
    elif options.bind_dn or options.bind_password_file:
        yield f"bind_dn and bind_password_file have no use with bind: {options.bind}"
    if options.bind != "gssapi" and (options.keytab_file or options.credentials_cache):
        yield f"keytab_file and credentials_cache have no use with bind: {options.bind}"
    if options.bind == "external" and not options.cert_file:
        yield "bind: external needs cert_file and key_file"
    if options.bind in ("external", "gssapi") and not _encrypted(options):
        yield f"bind: {options.bind} needs ldaps:// or start_tls: true"


def _group_conflicts(options: "LdapOptions") -> Iterator[str]:
    searches = (
        options.groups_from != "member_of"
        or options.nested != "off"
        or options.primary_group in ("gid_number", "active_directory")
    )
    if searches and not options.group_base:
        yield "group_base is required to search groups"
    if options.groups_from == "member_uid" and options.nested != "off":
        yield "nested has no use with groups_from: member_uid, whose groups hold no groups"
    if options.max_queued < options.max_in_flight and options.max_queued:
        yield "max_queued must be 0 or at least max_in_flight"


def _certificate_conflicts(options: "LdapOptions") -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if options.ca_file:
        try:
            context.load_verify_locations(options.ca_file)
        except (ssl.SSLError, OSError) as error:
            yield f"ca_file {options.ca_file} holds no certificates: {_reason(error)}"
    if options.cert_file and options.key_file:
        try:
            context.load_cert_chain(options.cert_file, options.key_file, password="")
        except (ssl.SSLError, OSError) as error:
            yield f"cert_file and key_file cannot be used: {_reason(error)}"


def _encrypted(options: "LdapOptions") -> bool:
    if options.start_tls or options.discover:
        return True
    return all(parse_url(url).encrypted for url in options.urls)


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or type(error).__name__
