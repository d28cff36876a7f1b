"""Code shared by all AdmissionReviews: the request around the objects, and the response. Pure.

`annotations.requests` and `queues.body` decode the parts of the objects that their endpoints need.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Required, TypedDict

import msgspec

from queuegate_server.admission.server.webhook_limits import MAX_MESSAGE, MAX_WARNING, MAX_WARNINGS

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


class _Kind(TypedDict, total=False):
    group: str | None
    kind: str | None


class UserInfo(TypedDict, total=False):
    """The requester."""

    username: str | None
    groups: msgspec.Raw


class ReviewRequest(TypedDict, total=False):
    """The members of a request that the endpoints inspect. Objects and groups are not decoded."""

    uid: Required[str]
    kind: Required[_Kind]
    userInfo: Required[UserInfo]
    operation: str | None
    subResource: str | None
    namespace: str | None
    name: str | None
    dryRun: bool | None
    object: msgspec.Raw
    oldObject: msgspec.Raw


class _Review(TypedDict):
    apiVersion: str
    kind: str
    request: ReviewRequest


_REVIEW: Final = msgspec.json.Decoder(_Review)


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Convert decoding errors raised in the block to MalformedReview.

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


def read_request(body: bytes) -> ReviewRequest:
    """Return the request in a body. Raises MalformedReview."""
    with decoding(f"an {KIND}"):
        review = _REVIEW.decode(body)
    if (review["apiVersion"], review["kind"]) != (API_VERSION, KIND):
        raise MalformedReview(f"the body is not an {KIND} of {API_VERSION}")
    if not review["request"]["uid"]:
        raise MalformedReview("request.uid must not be empty")
    return review["request"]


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
