"""Where the server listens, and how each of these places is protected."""

import re
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from queuegate_server.settings.addresses import Address, MalformedAddress, parse_address
from queuegate_server.settings.section import Section

_MOST_MODE: Final = 0o777
_OCTAL: Final = re.compile(r"(?:0o?)?[0-7]{3}")


def file_mode(value: object) -> object:
    """Take text for the octal number that it is."""
    if isinstance(value, str):
        if not _OCTAL.fullmatch(value):
            raise PydanticCustomError("mode", "not a file mode: write it in octal, such as 0660")
        return int(value.removeprefix("0o"), 8)
    return value


FileMode = Annotated[int, BeforeValidator(file_mode), Field(ge=0, le=_MOST_MODE)]


def file_path(value: object) -> object:
    """Refuse what can be no path."""
    if isinstance(value, str) and (not value or "\0" in value):
        raise PydanticCustomError("path", "not a path of a file")
    return value


FilePath = Annotated[Path, BeforeValidator(file_path)]


def _address(text: str) -> str:
    try:
        parse_address(text)
    except MalformedAddress as error:
        raise PydanticCustomError("address", "{message}", {"message": str(error)}) from None
    return text


def _account(value: object) -> object:
    """Take a number for the text that it would be in a variable."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Account = Annotated[str, BeforeValidator(_account), Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


class Tls(Section):
    """The certificate of a listener. The files are PEM, and followed as they change."""

    certificate_file: FilePath = Field(description="Our certificate, and its chain after it.")
    key_file: FilePath = Field(description="Its private key, without a passphrase.")
    client_ca_file: FilePath | None = Field(
        None,
        description="The authorities of the callers' certificates. With it, every caller must "
        "show one (mTLS).",
    )


class Listener(Section):
    """One address to serve on. In its place may stand the address alone, as a text."""

    address: Annotated[str, AfterValidator(_address)] = Field(
        description="host:port, [ipv6]:port or unix:/path."
    )
    tls: Tls | None = Field(None, description="For TCP: serve with TLS 1.2 or newer.")
    insecure: bool = Field(False, description="Allow plaintext on an address that is not loopback.")
    mode: FileMode | None = Field(
        None, description="For a Unix socket: its file mode. Without it, unix_socket_mode."
    )
    owner: Account | None = Field(
        None, description="For a Unix socket: the user that owns it, by name or number."
    )
    group: Account | None = Field(None, description="For a Unix socket: its group.")

    @property
    def parsed(self) -> Address:
        """The address in its parts."""
        return parse_address(self.address)

    @property
    def is_open(self) -> bool:
        """Whether other machines may connect, and nothing is encrypted."""
        return not self.tls and not self.parsed.is_local

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.parsed.path:
            if self.tls or self.insecure:
                raise PydanticCustomError(
                    "listener", "a Unix socket has neither tls nor insecure: its mode protects it"
                )
        elif not (self.mode is None and self.owner is None and self.group is None):
            raise PydanticCustomError(
                "listener", "mode, owner and group are those of a Unix socket, not of a port"
            )
        if self.tls and self.insecure:
            raise PydanticCustomError("listener", "give either tls or insecure, not both")
        if self.is_open and not self.insecure:
            raise PydanticCustomError(
                "listener",
                "{address} can be reached from other machines: give it tls (certificate_file, "
                "key_file), or allow plaintext with insecure: true",
                {"address": self.address},
            )
        return self


def _listener(value: object) -> object:
    return {"address": value} if isinstance(value, str) else value


def _listeners(value: object) -> object:
    """Take `a,b` for a list: a variable of the environment has no better way to say it."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [value] if isinstance(value, dict) else value


def _all_different(listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    addresses = [listener.address for listener in listeners]
    for position, address in enumerate(addresses):
        if address in addresses[:position] and not address.endswith(":0"):
            raise PydanticCustomError(
                "address", "the address {address} is listed twice", {"address": address}
            )
    return listeners


Listeners = Annotated[
    tuple[Annotated[Listener, BeforeValidator(_listener)], ...],
    BeforeValidator(_listeners),
    AfterValidator(_all_different),
    Field(min_length=1),
]
DEFAULT_LISTENERS: Final = (Listener(address="127.0.0.1:50051"),)
