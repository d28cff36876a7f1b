"""The identities and rights of callers."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from queuegate_server.config_fields import Section, check_with, distinct_keys
from queuegate_server.settings.listeners import FilePath

MAX_NAME_LENGTH: Final = 256
CERTIFICATE_NAMES: Final = ("spiffe:", "uri:", "dns:", "cn:", "subject:")
"""The prefixes of certificate names, in lookup order."""
_FORMS: Final = {
    # https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
    "spiffe:": (
        re.compile(r"spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)+"),
        "a SPIFFE ID: write spiffe://trust.domain/path in full, or uri:… for any other URI",
    ),
    "uri:": (
        re.compile(r"uri:[A-Za-z][-A-Za-z0-9+.]*:\S+"),
        "a URI: write it with its scheme, such as uri:https://example.org/ci",
    ),
    "dns:": (
        re.compile(r"dns:[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?"),
        "a DNS name: write it without a scheme, port, path or final dot: dns:ci.example.org",
    ),
    # The form printed by `openssl x509 -subject -nameopt RFC2253`, not `/CN=ci` or `CN = ci, O =
    # …`.
    "subject:": (
        re.compile(r"subject:[A-Za-z0-9.]+=(?! )(?:[^,\\]|\\.|,(?! ))*"),
        "an RFC 2253 subject: write subject:CN=ci,O=Example, without spaces after commas",
    ),
}
"""Name patterns by prefix, with the correct form for error messages. A CN can be any text."""
TOKEN_NAME: Final = r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,63}$"  # noqa: S105 - a pattern


class Role(StrEnum):
    """A set of permitted calls."""

    CHECK = "check"
    """Request decisions."""
    READ = "read"
    """Explain decisions, list queues, resolve groups, read and validate policies."""
    ADMIN = "admin"
    """Invalidate groups and reload the policy."""
    SYNC = "sync"
    """Fetch the policy and groups to decide without the server."""


def _roles(value: object) -> object:
    """Split a comma-separated list, as given in an environment variable."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Roles = Annotated[tuple[Role, ...], BeforeValidator(_roles)]


class Rights(Section):
    """A caller's rights."""

    roles: Roles = ()
    """check, read, admin, sync; no role includes another."""
    assert_groups: bool = False
    """Whether to use the groups in the caller's requests. If not, they are ignored and the user's
    groups are resolved."""


class LocalRights(Rights):
    """Rights of callers on this machine, with broader defaults."""

    roles: Roles = (Role.CHECK, Role.READ, Role.SYNC)
    """check, read, admin, sync."""
    assert_groups: bool = True
    """Whether to use the groups in requests."""


def certificate_name(name: str) -> str:
    """Validate a certificate name, and convert a DNS name to lower case. Raises ValueError."""
    kind = next((kind for kind in CERTIFICATE_NAMES if name.startswith(kind)), "")
    text = name.removeprefix(kind)
    is_valid = text and text == text.strip() and len(name) <= MAX_NAME_LENGTH
    if not kind or not is_valid or not name.isprintable():
        raise ValueError(
            "is not a certificate name: write spiffe://…, uri:…, dns:…, cn:… or subject:…, "
            f"with at most {MAX_NAME_LENGTH} printable characters"
        )
    if "*" in name or text.startswith("."):
        raise ValueError(
            "wildcards are not supported, because names are compared exactly: list each name in"
            " full"
        )
    if kind != "cn:" and not name.isascii():
        raise ValueError(
            "must be ASCII, as in the certificate: dns:xn--…, uri:…%C3%B6,"
            r" subject:…\C3\B6"
        )
    if kind in _FORMS and not _FORMS[kind][0].fullmatch(name):
        raise ValueError(f"is not {_FORMS[kind][1]}")
    return name.lower() if kind == "dns:" else name


class Callers(Section):
    """The rights of all callers. Unlisted callers may use only the health service."""

    loopback: LocalRights = LocalRights()
    """Callers on this machine that connect over TCP without credentials."""
    unix: LocalRights = LocalRights()
    """Callers that connect over a Unix socket. The socket's file mode controls access."""
    certificates: Annotated[
        Mapping[Annotated[str, check_with(certificate_name)], Rights],
        distinct_keys("certificate", certificate_name),
    ] = Field(default_factory=dict)
    """Callers by name in their client certificate: spiffe://…, uri:…, dns:…, cn:…, subject:…."""
    token_file: FilePath | None = None
    """Names and SHA-256 hashes of bearer tokens, as printed by `queuegate-server token`."""
    tokens: Mapping[Annotated[str, Field(pattern=TOKEN_NAME)], Rights] = Field(default_factory=dict)
    """Callers by token name."""

    @model_validator(mode="after")
    def _tokens_have_a_file(self) -> "Callers":
        if self.tokens and self.token_file is None:
            raise ValueError("tokens requires token_file")
        return self
