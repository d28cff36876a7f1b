"""Settings common to the resolvers for identity providers, validated without network access."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError
from yarl import URL

from queuegate_server.config_fields import (
    MIB,
    Duration,
    check_file,
    check_not_empty,
    check_with,
)
from queuegate_server.files.safe_open import file_status, read_regular
from queuegate_server.identity.certificate_advice import check_authorities, tls_context
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.rest.faults import RequestFault

MAX_SECRET_BYTES: Final = 16_384
"""Enough for a token of another issuer."""
_MAX_URL_CHARS: Final = 1024


def parse_address(text: str) -> URL:
    """Return an http or https address without a trailing slash. Raises ValueError.

    Messages do not quote the address, because a secret may have been set under the wrong key.
    """
    try:
        url = URL(text)
        is_usable = url.scheme in {"http", "https"} and bool(url.host) and bool(url.port)
    except ValueError:
        is_usable = False
    is_text = len(text) <= _MAX_URL_CHARS and text.isprintable() and " " not in text
    if not is_usable or not is_text:
        raise ValueError("is not a URL: expected something like https://id.example.com")
    if url.user is not None or url.password is not None:
        raise ValueError("must not contain a user or password")
    if url.raw_query_string or url.raw_fragment:
        raise ValueError("must not contain a query or fragment")
    return URL(f"{url.origin()}{url.raw_path.rstrip('/')}", encoded=True)


def _parse_proxy(text: str) -> None:
    is_usable = "://" in text
    if is_usable:
        url = parse_address(text)
        is_usable = url.scheme == "http" and url.raw_path in {"", "/"}
    if not is_usable:
        raise ValueError(
            "is not a proxy URL: expected something like http://proxy.example.com:3128"
        )


def parse_secret(content: bytes) -> str:
    """Return the secret in a file, without the line break at its end. Raises ValueError."""
    text = content.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not text or not text.isprintable() or not text.isascii() or len(content) > MAX_SECRET_BYTES:
        raise ValueError("the file contains no secret: write it as one line of ASCII")
    if text != text.strip():
        raise ValueError("the secret begins or ends with white space: remove it")
    return text


def _check_suffix(text: str) -> str:
    if text and (not text.isprintable() or " " in text or text[0].isalnum()):
        raise ValueError("is not a suffix: expected something like @example.com")
    return text


def in_form(pattern: str, form: str) -> AfterValidator:
    """Return a validator for strings that match a pattern. `form` says how to write them.

    Unlike with pydantic's own check, the message does not show the pattern.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(form)
        return text

    return AfterValidator(check)


def _check_origin(text: str) -> str:
    if parse_address(text).raw_path.strip("/"):
        raise ValueError("has a path: write the address without it")
    return text


Address = Annotated[str, check_with(parse_address)]
Origin = Annotated[Address, AfterValidator(_check_origin)]
ProxyAddress = Annotated[str, check_with(_parse_proxy)]
ReadableFile = Annotated[Path, check_file(check_not_empty)]
SecretFile = Annotated[Path, check_file(parse_secret)]
NameSuffix = Annotated[str, AfterValidator(_check_suffix), Field(max_length=255)]


class RestOptions(ResolverOptions):
    """Settings common to the resolvers for identity providers. Durations in seconds."""

    issuer_settings: ClassVar = "the address in the settings"
    """The settings that determine the token endpoint's address, as messages show them."""
    private_files: ClassVar[tuple[str, ...]] = ()
    """The settings for files that only the server's account should be able to read."""
    # Connections.
    ca_file: ReadableFile | None = None
    """Trusted root certificates, read again when the file changes. Default: the system's."""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    """The minimum TLS version."""
    proxy: ProxyAddress | None = None
    """The HTTP proxy for all requests, without a user or password. Default: none; variables such
    as HTTPS_PROXY are ignored."""
    request_timeout: Annotated[Duration, Field(ge=0.05, le=60)] = 3.0
    """How long one request may take, including the connection."""
    # Names.
    user_suffix: NameSuffix = ""
    """Appended to each user's name before the lookup, such as @example.com."""
    user_match: Literal["exact", "casefold"] = "exact"
    """exact: the provider's name must equal the requested name; casefold: case is ignored."""
    name_case: Literal["preserve", "lower"] = "preserve"
    """Whether group names are kept as they are or lowercased."""
    # Limits.
    max_groups: int = Field(5000, ge=1, le=100_000)
    """The maximum number of groups per user. Lookups of users with more groups fail."""

    @model_validator(mode="after")
    def _check_tls(self, info: ValidationInfo) -> Self:
        if self.ca_file not in (info.context or set()):
            try:
                self.tls_context()
            except (OSError, ValueError) as error:
                raise problem(str(error)) from None
        return self

    def contradictions(self) -> Mapping[str, tuple[str, str]]:
        """Return a message and a remedy if a request cannot time out before its lookup does."""
        if self.request_timeout < self.lookup_timeout:
            return {}
        message = (
            f"request_timeout ({self.request_timeout:g} s) is not shorter than lookup_timeout "
            f"({self.lookup_timeout:g} s), so a lookup times out before its cause is known"
        )
        return {"request_timeout": (message, "raise lookup_timeout, or lower this setting")}

    def tls_context(self) -> ssl.SSLContext:
        """Return an SSL context with the current certificates. Blocks. Raises ValueError."""
        context = tls_context(self.ca_file, self.tls_min_version, verify=True)
        if self.ca_file is None and self.needs_authorities():
            check_authorities(context)
        return context

    @property
    def follows(self) -> bool:
        """Whether the provider's changes are followed."""
        return getattr(self, "changes", "none") != "none"

    def needs_authorities(self) -> bool:
        """Return whether any address uses TLS."""
        return True


async def secret_in(file: Path, setting: str) -> str:
    """Return the secret in a file, which `setting` names. Raises RequestFault."""
    try:
        return parse_secret(await asyncio.to_thread(read_regular, file, MIB))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RequestFault(f"{setting} cannot be used: {reason}", "correct the file") from None


async def version_of(file: Path | None) -> object:
    """Return a value that changes with a file, or a constant if there is none."""
    if file is None:
        return None
    try:
        return await asyncio.to_thread(file_status, file)
    except OSError as error:
        return error.errno


def check_user_attribute(user_name: str, user_attribute: str | None) -> None:
    """Raise an error if `user_attribute` is set although `user_name` does not use it, or vice
    versa.
    """
    if (user_name == "attribute") != (user_attribute is not None):
        raise problem(
            "user_name: attribute and user_attribute belong together: set both or neither"
        )


def problem(message: str) -> PydanticCustomError:
    """Return the error for settings that contradict each other."""
    return PydanticCustomError("rest", "{message}", {"message": message})
