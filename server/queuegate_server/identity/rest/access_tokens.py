"""Access tokens (RFC 6749, 4.4), fetched when needed and renewed before they expire."""

import logging
import math
import re
from asyncio import Task
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from queuegate_server.identity.rest.answers import HttpAnswer, check_answer, decoded_small
from queuegate_server.identity.rest.faults import NotFound, RejectedCredentials, RequestFault
from queuegate_server.identity.rest.provider_options import secret_in, version_of
from queuegate_server.runtime.single_flight import Flight, FlightCancelled, SingleFlight

_LOG = logging.getLogger("queuegate_server.identity.rest")

RENEWAL_SHARE: Final = 0.75
"""The share of a token's lifetime after which it is renewed, in the background."""
MARGIN: Final = 5.0
"""How long before its expiry a token is no longer sent, in seconds."""
FILE_CHECK_SECONDS: Final = 1.0
"""How often a file is checked for changes, in seconds."""
RENEWAL_PAUSE: Final = 10.0
"""How long to wait after a failed renewal while the old token is still valid, in seconds."""
REJECTED_SECONDS: Final = 60.0
"""The pause after rejected credentials, unless their file changes. Repeated attempts would lock the
account at some providers; a correction on the provider's side takes effect within a minute."""
MAX_LIFETIME: Final = 86_400.0
_TOKEN: Final = re.compile(r"[\x21-\x7E]{1,6144}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_KEY: Final = "token"
_REFUSALS: Final = frozenset({400, 401})
_REASONS: Final = ("error", "error_description")
_CREDENTIALS_ADVICE: Final = (
    "check the client's name and secret, and that it may use client credentials"
)
_DPOP_ADVICE: Final = (
    "queuegate does not support DPoP: turn off Require Demonstrating Proof of Possession for the "
    "application"
)
_REJECTIONS: Final = {
    "invalid_client": _CREDENTIALS_ADVICE,
    "unauthorized_client": _CREDENTIALS_ADVICE,
    "invalid_grant": _CREDENTIALS_ADVICE,
    "invalid_scope": "grant the client the scopes that the page about this resolver lists",
    "invalid_dpop_proof": _DPOP_ADVICE,
    "use_dpop_nonce": _DPOP_ADVICE,
}
"""Errors of a token endpoint (RFC 6749, 5.2; RFC 9449, 5 and 8) that the same credentials would
cause again, with the advice about each."""


class Credentials(Protocol):
    """A source of the Authorization header."""

    async def header(self) -> str:
        """Return the value of the Authorization header. Raises RequestFault."""

    def drop(self, header: str) -> None:
        """Forget a header that the API has rejected, unless it has already been replaced."""

    async def close(self) -> None:
        """Cancel requests in progress."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token and its lifetime."""

    value: str = field(repr=False)
    lifetime: float
    """How long the token is valid, in seconds from the request for it."""


@dataclass(frozen=True, slots=True)
class _Cached:
    header: str = field(repr=False)
    renew_at: float
    expires_at: float


class TokenCache:
    """The access token of one client, shared by all lookups.

    Args:
        fetch: Requests a token. Must have a timeout. Raises RequestFault.
        version: Returns a value that changes with the credentials file.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[AccessToken]],
        version: Callable[[], Awaitable[object]],
        clock: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._version = version
        self._clock = clock
        self._cached: _Cached | None = None
        self._renew_after = -math.inf
        self._rejection: tuple[float, object, RejectedCredentials] | None = None
        self._flights: SingleFlight[_Cached] = SingleFlight(self._request, clock)

    async def header(self) -> str:
        """Return the value of the Authorization header. Raises RequestFault."""
        cached, now = self._cached, self._clock()
        if cached is not None and now < cached.expires_at:
            is_due = now >= max(cached.renew_at, self._renew_after)
            if is_due and _KEY not in self._flights:
                self._renew_after = now + RENEWAL_PAUSE
                self._flights.start(_KEY).add_done_callback(_log_failure)
            return cached.header
        try:
            return (await self._flights.join(_KEY)).header
        except FlightCancelled:
            raise RequestFault("the resolver is closed") from None

    def drop(self, header: str) -> None:
        """Forget a token that the API has rejected, unless it has already been replaced."""
        if self._cached is not None and self._cached.header == header:
            self._cached = None

    async def close(self) -> None:
        """Cancel requests in progress."""
        await self._flights.close()

    async def _request(self, _: Flight) -> _Cached:
        """Request a token, unless its credentials were rejected recently."""
        version = await self._version()
        if self._rejection is not None:
            until, rejected, fault = self._rejection
            if rejected == version and self._clock() < until:
                raise RejectedCredentials(fault.detail, fault.advice)
        start = self._clock()
        try:
            token = await self._fetch()
        except RejectedCredentials as fault:
            self._rejection = self._clock() + REJECTED_SECONDS, version, fault
            raise
        self._rejection = None
        self._cached = _Cached(
            f"Bearer {token.value}",
            start + token.lifetime * RENEWAL_SHARE,
            start + max(token.lifetime - MARGIN, token.lifetime * RENEWAL_SHARE),
        )
        return self._cached


class FileToken:
    """A token in a file, which is read again when the file changes.

    Args:
        file: The file.
        setting: The setting that names it; messages contain it.
        scheme: The scheme in the Authorization header.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        file: Path,
        setting: str,
        scheme: str,
        clock: Callable[[], float],
    ) -> None:
        self._file = file
        self._setting = setting
        self._scheme = scheme
        self._clock = clock
        self._header = ""
        self._version: object = None
        self._checked = -math.inf
        self._rejected_until = -math.inf

    async def header(self) -> str:
        """Return the value of the Authorization header. Raises RequestFault."""
        now = self._clock()
        is_due = now - self._checked >= FILE_CHECK_SECONDS
        if is_due or now < self._rejected_until or not self._header:
            self._checked = now
            version = await version_of(self._file)
            if version != self._version or not self._header:
                self._header = f"{self._scheme} {await secret_in(self._file, self._setting)}"
                self._version, self._rejected_until = version, -math.inf
        if now < self._rejected_until:
            raise RejectedCredentials(
                f"the server rejected the token in {self._setting}",
                "check whether it has expired, and replace the file",
            )
        return self._header

    def drop(self, header: str) -> None:
        """Do not resend a token that the API has rejected, unless it has been replaced."""
        if header == self._header:
            self._rejected_until = self._clock() + REJECTED_SECONDS

    async def close(self) -> None:
        """Do nothing."""


def token_in(answer: HttpAnswer, settings: str) -> AccessToken:
    """Return the token in an answer. Raises RequestFault.

    Args:
        answer: The answer of a token endpoint (RFC 6749, 5).
        settings: The settings that determine the endpoint's address; messages contain them.
    """
    if answer.status in _REFUSALS:
        try:
            body = decoded_small(answer)
        except RequestFault:
            body = None
        if isinstance(body, dict):
            code = str(body.get("error"))
            reasons = (answer.for_message(body.get(key)) for key in _REASONS)
            detail = ": ".join(filter(None, (answer.what, *reasons)))
            fault = RejectedCredentials if code in _REJECTIONS else RequestFault
            raise fault(f"{detail} ({answer.status})", _REJECTIONS.get(code, _CREDENTIALS_ADVICE))
    try:
        check_answer(answer)
    except NotFound as error:
        raise RequestFault(error.detail, f"check {settings}") from None
    return _parsed(decoded_small(answer))


def _parsed(body: Any) -> AccessToken:
    """Return the token in the body of a successful answer. Raises RequestFault."""
    given = body if isinstance(body, dict) else {}
    token, lifetime = given.get("access_token"), _lifetime(given.get("expires_in", 60))
    if not isinstance(token, str) or not _TOKEN.fullmatch(token) or lifetime is None:
        raise RequestFault(
            "token: the server sent no usable access_token", "check the address of the provider"
        )
    return AccessToken(token, lifetime)


def _lifetime(value: object) -> float | None:
    """Return a lifetime in seconds; None if the value is not a lifetime. Some providers send
    text.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        return None
    return float(min(value, MAX_LIFETIME))


def _log_failure(task: Task[_Cached]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        reason = error.text if isinstance(error, RequestFault) else type(error).__name__
        _LOG.warning("cannot renew the access token: %s", reason)
