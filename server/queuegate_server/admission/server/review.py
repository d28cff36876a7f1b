"""What all AdmissionReviews share: errors in bodies, and the encoding of responses. Pure.

`annotations.requests` and `queues.body` decode what their endpoints need of the request.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from queuegate_server.admission.server.review_limits import MAX_MESSAGE, MAX_WARNING, MAX_WARNINGS

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_FORBIDDEN: Final = 403
Patch = tuple[Mapping[str, Any], ...]
"""A JSON patch, as a sequence of operations."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The result of a review: allowed (possibly with a patch) or denied (with a message)."""

    allowed: bool
    message: str = ""
    patch: Patch = ()
    warnings: tuple[str, ...] = ()


ALLOWED: Final = AdmissionResponse(allowed=True)


def deny(message: str) -> AdmissionResponse:
    """Return a denial with the given message."""
    return AdmissionResponse(allowed=False, message=message)


class MalformedReview(ValueError):
    """The body is not a valid review; the message states the reason."""


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Raise MalformedReview if a body cannot be decoded in the block.

    Args:
        kind: What the body must be, with an article, such as `an AdmissionReview`.
    """
    try:
        yield
    except msgspec.ValidationError as error:
        raise MalformedReview(f"the body is not {kind}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise MalformedReview("the body is nested too deeply") from None


def write_review(uid: str, response: AdmissionResponse) -> bytes:
    """Encode the response to the request with the given UID."""
    written: dict[str, Any] = {"uid": uid, "allowed": response.allowed}
    if response.message:
        message = _shortened(response.message)
        written["status"] = {"code": _FORBIDDEN, "reason": "Forbidden", "message": message}
    if response.patch:
        written["patchType"] = "JSONPatch"
        written["patch"] = base64.b64encode(msgspec.json.encode(response.patch)).decode("ascii")
    if response.warnings:
        written["warnings"] = _bounded_warnings(response.warnings)
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": written}
    return msgspec.json.encode(review)


def _bounded_warnings(warnings: Sequence[str]) -> list[str]:
    """Return the first warnings, followed by the number omitted."""
    written = [_shortened(warning, MAX_WARNING) for warning in warnings[:MAX_WARNINGS]]
    more = len(warnings) - len(written)
    return (
        [*written, f"and {more} more {'warning' if more == 1 else 'warnings'}"] if more else written
    )


def _shortened(text: str, length: int = MAX_MESSAGE) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
