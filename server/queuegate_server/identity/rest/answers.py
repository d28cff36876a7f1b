"""Reads an API's answers: bounded bodies, JSON of the expected shape, and requested pauses."""

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final

from queuegate_server.identity.rest.answer_limits import (
    MAX_NAME_CHARS,
    MAX_SMALL_BODY_BYTES,
    MAX_VALUES,
)
from queuegate_server.identity.rest.faults import (
    BadRequest,
    Gone,
    NotFound,
    RequestFault,
    Throttled,
    UnusableAnswer,
    for_message,
)

DEFAULT_PAUSE: Final = 10.0
"""The pause after a refusal that states none, in seconds."""
MIN_PAUSE: Final = 1.0
MAX_PAUSE: Final = 300.0
"""The bounds of a pause that an answer asks for, in seconds."""
_TOO_MANY_REQUESTS: Final = 429
_UNAVAILABLE: Final = 503
_GONE: Final = 410
_RESYNC_CODES: Final = frozenset({"syncstatenotfound", "resyncrequired"})
"""Microsoft Graph's errors for a delta query that cannot be continued."""
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer to a request."""

    what: str
    """The requested resource, as messages show it."""
    status: int
    headers: Mapping[str, str]
    """The headers, by their names in lower case."""
    body: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Parts of the request that messages must not contain."""

    def for_message(self, text: object) -> str:
        """Return part of a string in the answer for use in a message, without secrets."""
        return for_message(text, self.secrets)


def requested_pause(headers: Mapping[str, str]) -> float | None:
    """Return the pause that an answer asks for, in seconds; None if it asks for none.

    The pause is clamped to `MIN_PAUSE` and `MAX_PAUSE`; an unreadable one becomes `DEFAULT_PAUSE`.

    Retry-After is defined in RFC 9110, 10.2.3. Okta instead sends X-Rate-Limit-Remaining and
    X-Rate-Limit-Reset (in Unix seconds).
    """
    after = headers.get("retry-after")
    if after is not None:
        return _bounded(_seconds(after))
    if headers.get("x-rate-limit-remaining") == "0":
        reset = headers.get("x-rate-limit-reset", "")
        return _bounded(_number(reset) - server_time(headers))
    return None


def server_time(headers: Mapping[str, str]) -> float:
    """Return the provider's time in an answer (RFC 9110, 6.6.1), in Unix seconds; this machine's
    time if there is none.
    """
    at = _date(headers.get("date", ""))
    return time.time() if at is None else at


def check_answer(answer: HttpAnswer, right: str = "") -> None:
    """Raise a fault unless the answer is a success.

    Raises NotFound for 404 only if the body is JSON, because a proxy or an incorrect address
    answers 404 as well.

    Args:
        answer: The answer.
        right: The right that the request needs; messages contain it.
    """
    status, what = answer.status, answer.what
    if status == 200:  # noqa: PLR2004 - the only success of the requests that are sent
        return
    if status == _TOO_MANY_REQUESTS or (status == _UNAVAILABLE and "retry-after" in answer.headers):
        raise Throttled(f"{what}: the server is throttling requests ({status})")
    if 300 <= status < 400:  # noqa: PLR2004
        raise RequestFault(
            f"{what}: the server sent a redirect ({status}), which is not followed",
            "set the address to the target of the redirect, if you trust it",
        )
    reason = _reason(answer)
    if status == _GONE or (reason or "").lower() in _RESYNC_CODES:
        raise Gone(f"{what}: {reason or 'gone'} ({status})")
    if status == 404:  # noqa: PLR2004
        if reason is None:
            raise RequestFault(f"{what}: not found (404)", "check the address in the settings")
        raise NotFound(f"{what}: {reason or 'not found'} (404)", reason)
    if status == 400 and reason is not None:  # noqa: PLR2004
        raise BadRequest(f"{what}: {reason or 'bad request'} (400)")
    advice = {
        401: "check the client's credentials",
        403: f"grant the client {right or 'the rights that the page about this resolver lists'}",
    }.get(status, "")
    raise RequestFault(f"{what}: {reason or 'the server refused or failed'} ({status})", advice)


def decoded(answer: HttpAnswer) -> Any:
    """Return the JSON in a successful answer. Raises RequestFault.

    Commas and opening brackets are counted first, including those in strings. JSON has at most one
    more value than it has of these characters.
    """
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    if kind.lower() != "application/json" and not kind.lower().endswith("+json"):
        shown = answer.for_message(kind) or "another type"
        raise RequestFault(
            f"{answer.what}: the server sent {shown} instead of JSON",
            "check the address, and whether a proxy or a login page answers instead of the API",
        )
    if sum(map(answer.body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise UnusableAnswer(f"{answer.what}: the answer has more than {MAX_VALUES} values")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise RequestFault(f"{answer.what}: the server sent malformed JSON") from None


def decoded_small(answer: HttpAnswer) -> Any:
    """Return the JSON in a token or an error, which is small. Raises RequestFault."""
    if len(answer.body) > MAX_SMALL_BODY_BYTES:
        raise RequestFault(
            f"{answer.what}: the answer is larger than {MAX_SMALL_BODY_BYTES // 1024} KiB",
            "check the address in the settings",
        )
    return decoded(answer)


def text_field(item: object, key: str, what: str) -> str:
    """Return a string in a JSON object. Raises RequestFault if it is missing, empty or too long."""
    value = item.get(key) if isinstance(item, dict) else None
    if not isinstance(value, str):
        raise RequestFault(f"{what}: an item has no usable {key}")
    if not 0 < len(value) <= MAX_NAME_CHARS:
        raise UnusableAnswer(
            f"{what}: the {key} of an item is empty or has more than {MAX_NAME_CHARS} characters",
            f"correct the {key}",
        )
    return value


def is_name(text: str) -> bool:
    """Return whether a string can be a name: not empty, no control characters, no lone
    surrogates.
    """
    return bool(text) and (text.isprintable() or not _UNPRINTABLE.search(text))


def _reason(answer: HttpAnswer) -> str | None:
    """Return the API's reason for an error, possibly ""; None if the body is not JSON."""
    try:
        body = decoded_small(answer)
    except RequestFault:
        return None
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("code") or error.get("errorCode") or error.get("errorMessage")
    return answer.for_message(error)


def _seconds(text: str) -> float:
    if text.isascii() and text.isdecimal():
        return _number(text)
    date = _date(text)
    return math.nan if date is None else date - time.time()


def _number(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else math.nan  # noqa: PLR2004


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _bounded(pause: float) -> float:
    return DEFAULT_PAUSE if math.isnan(pause) else min(max(pause, MIN_PAUSE), MAX_PAUSE)
