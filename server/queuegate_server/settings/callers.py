"""Callers: how they are identified, and which calls they may make."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from queuegate_server.config_fields import Section
from queuegate_server.settings.listeners import FilePath

MAX_NAME_LENGTH: Final = 256
CERTIFICATE_NAMES: Final = ("spiffe:", "uri:", "dns:", "cn:", "subject:")
"""The prefixes of names in a certificate, in lookup order."""
# https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
_SPIFFE_ID: Final = re.compile(r"spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)+")
TOKEN_NAME: Final = r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,63}$"  # noqa: S105 - a pattern


class Role(StrEnum):
    """A set of calls that a caller may make."""

    CHECK = "check"
    """Ask for decisions."""
    READ = "read"
    """Explain decisions, list queues, resolve groups, read and validate policies."""
    ADMIN = "admin"
    """Invalidate groups and reload the policy."""
    SYNC = "sync"
    """Get the policy and groups, to decide without the server."""


def _roles(value: object) -> object:
    """Split `a,b`, as an environment variable lists roles."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Roles = Annotated[tuple[Role, ...], BeforeValidator(_roles)]


class Rights(Section):
    """The rights of a caller."""

    roles: Roles = Field((), description="check, read, admin, sync; none of them includes another.")
    assert_groups: bool = Field(
        False,
        description="Whether groups in the caller's requests are used as they are. If not, they "
        "are ignored and the user's groups are resolved.",
    )


class LocalRights(Rights):
    """The default rights of callers on this machine."""

    roles: Roles = Field(
        (Role.CHECK, Role.READ, Role.SYNC), description="check, read, admin, sync."
    )
    assert_groups: bool = Field(True, description="Whether groups in requests are used.")


def _certificates(named: Mapping[str, Rights]) -> Mapping[str, Rights]:
    """Validate certificate names, and return DNS names in lower case."""
    canonical: dict[str, Rights] = {}
    for name, rights in named.items():
        kind = next((kind for kind in CERTIFICATE_NAMES if name.startswith(kind)), "")
        text = name.removeprefix(kind)
        valid = text and text == text.strip() and len(name) <= MAX_NAME_LENGTH
        if not kind or not valid or not name.isprintable():
            raise ValueError(
                f"{name[:MAX_NAME_LENGTH]!a} is not the name of a certificate: write spiffe://…, "
                "uri:…, dns:…, cn:… or subject:…, with at most "
                f"{MAX_NAME_LENGTH} printable characters"
            )
        if kind != "cn:" and not name.isascii():
            raise ValueError(
                f"{name!a} must be ASCII, as in the certificate: dns:xn--…, uri:…%C3%B6,"
                r" subject:…\C3\B6"
            )
        if kind == "spiffe:" and not _SPIFFE_ID.fullmatch(name):
            raise ValueError(
                f"{name!a} is not a SPIFFE ID: write spiffe://trust.domain/path in full, without"
                " wildcards, or uri:… for any other URI"
            )
        key = name.lower() if kind == "dns:" else name
        if key in canonical:
            raise ValueError(f"the certificate {key} is listed twice")
        canonical[key] = rights
    return canonical


class Callers(Section):
    """The rights of all callers. Unlisted callers may only use the health service."""

    loopback: LocalRights = Field(
        LocalRights(), description="Callers over TCP from this machine, without a credential."
    )
    unix: LocalRights = Field(
        LocalRights(), description="Callers over a Unix socket; its file mode admits them."
    )
    certificates: Annotated[Mapping[str, Rights], AfterValidator(_certificates)] = Field(
        default_factory=dict,
        description="Callers by a name in their client certificate: spiffe://…, uri:…, "
        "dns:…, cn:…, subject:….",
    )
    token_file: FilePath | None = Field(
        None,
        description="Names and SHA-256 hashes of bearer tokens, as printed by "
        "`queuegate-server token`.",
    )
    tokens: Mapping[Annotated[str, Field(pattern=TOKEN_NAME)], Rights] = Field(
        default_factory=dict, description="Callers by the name of the token that they send."
    )

    @model_validator(mode="after")
    def _tokens_have_a_file(self) -> "Callers":
        if self.tokens and self.token_file is None:
            raise ValueError("tokens requires token_file")
        return self
