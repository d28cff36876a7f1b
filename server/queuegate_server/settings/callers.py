"""Who may call what."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from queuegate_server.settings.listeners import FilePath
from queuegate_server.settings.section import Section

_LONGEST_NAME: Final = 256
CERTIFICATE_NAMES: Final = ("spiffe:", "uri:", "dns:", "cn:", "subject:")
"""What a name of a certificate begins with; in this order they are looked for."""
# https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
_SPIFFE_ID: Final = re.compile(r"spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)*")
TOKEN_NAME: Final = r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,63}$"  # noqa: S105 - a pattern


class Role(StrEnum):
    """What a caller may do."""

    CHECK = "check"
    """Ask for decisions."""
    READ = "read"
    """Explain, list, resolve, see and validate policies."""
    ADMIN = "admin"
    """Invalidate groups and reload the policy."""


def _roles(value: object) -> object:
    """Take `a,b` for a list, as of addresses."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Roles = Annotated[tuple[Role, ...], BeforeValidator(_roles)]


class Rights(Section):
    """What one caller may do."""

    roles: Roles = Field((), description="check, read, admin; none of them includes another.")
    assert_groups: bool = Field(
        False,
        description="Whether groups in its requests are used as they are. If not, they are "
        "ignored and resolved.",
    )


class LocalRights(Rights):
    """What callers on this machine may do, unless it is set."""

    roles: Roles = Field((Role.CHECK, Role.READ), description="check, read, admin.")
    assert_groups: bool = Field(True, description="Whether groups in requests are used.")


def _certificates(named: Mapping[str, Rights]) -> Mapping[str, Rights]:
    """Check the names, and spell those of DNS in lower case."""
    spelled: dict[str, Rights] = {}
    for name, rights in named.items():
        kind = next((kind for kind in CERTIFICATE_NAMES if name.startswith(kind)), "")
        text = name.removeprefix(kind)
        fits = text and text == text.strip() and len(name) <= _LONGEST_NAME
        if not kind or not fits or not name.isprintable():
            raise PydanticCustomError(
                "certificate",
                "{name} is no name of a certificate: write spiffe://…, uri:…, dns:…, cn:… or "
                "subject:…, of at most {most} printable characters",
                {"name": ascii(name[:_LONGEST_NAME]), "most": _LONGEST_NAME},
            )
        if kind == "spiffe:" and not _SPIFFE_ID.fullmatch(name):
            raise PydanticCustomError(
                "certificate",
                "{name} is no SPIFFE ID: write spiffe://trust.domain/path, all of it, for there are"
                " no wildcards; uri: takes any other URI",
                {"name": ascii(name)},
            )
        key = name.lower() if kind == "dns:" else name
        if key in spelled:
            raise PydanticCustomError(
                "certificate", "the certificate {name} is there twice", {"name": key}
            )
        spelled[key] = rights
    return spelled


class Callers(Section):
    """Who may call what. Who is not listed may call the health service only."""

    loopback: LocalRights = Field(
        LocalRights(), description="Callers over TCP from this machine, without a credential."
    )
    unix: LocalRights = Field(
        LocalRights(), description="Callers over a Unix socket, which its file mode admits."
    )
    certificates: Annotated[Mapping[str, Rights], AfterValidator(_certificates)] = Field(
        default_factory=dict,
        description="By a name in the certificate that a caller showed: spiffe://…, uri:…, "
        "dns:…, cn:…, subject:….",
    )
    token_file: FilePath | None = Field(
        None, description="Names and SHA-256 of bearer tokens, see `queuegate-server token`."
    )
    tokens: Mapping[Annotated[str, Field(pattern=TOKEN_NAME)], Rights] = Field(
        default_factory=dict, description="By the name of the token that a caller sent."
    )

    @model_validator(mode="after")
    def _tokens_have_a_file(self) -> "Callers":
        if self.tokens and self.token_file is None:
            raise PydanticCustomError("tokens", "tokens need their token_file")
        return self
