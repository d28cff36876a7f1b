"""Decodes and encodes AdmissionReviews. Pure."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from queuegate_server.admission.rules import AdmissionRequest, AdmissionResponse

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_MAX_MESSAGE: Final = 8 * 1024
_FORBIDDEN: Final = 403
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class MalformedReview(ValueError):
    """The body is not a valid AdmissionReview; the message says what is wrong."""


def read_review(body: bytes) -> AdmissionRequest:
    """Return the request in a body. Raises MalformedReview.

    The objects in it are not validated: a fault in one of them leads to a denial, not to a
    malformed review.
    """
    request = _member(_parse(body), "request")
    kind = _member(request, "kind", "request.")
    user = _member(request, "userInfo", "request.")
    groups = user.get("groups")
    if groups is None:
        groups = []
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise MalformedReview("request.userInfo.groups must be a list of strings")
    uid = _text(request, "uid")
    if not uid:
        raise MalformedReview("request.uid must not be empty")
    return AdmissionRequest(
        kind=_text(kind, "kind", "request.kind."),
        operation=_text(request, "operation"),
        namespace=_text(request, "namespace"),
        user=_text(user, "username", "request.userInfo."),
        groups=tuple(groups),
        new=request.get("object"),
        old=request.get("oldObject"),
        uid=uid,
        name=_text(request, "name"),
    )


def write_review(uid: str, response: AdmissionResponse) -> bytes:
    """Encode the response to the request with this uid."""
    written: dict[str, Any] = {"uid": uid, "allowed": response.allowed}
    if response.message:
        message = _shortened(response.message)
        written["status"] = {"code": _FORBIDDEN, "reason": "Forbidden", "message": message}
    if response.patch:
        patch = json.dumps(response.patch, ensure_ascii=False, separators=(",", ":"))
        written["patchType"] = "JSONPatch"
        written["patch"] = base64.b64encode(patch.encode()).decode("ascii")
    if response.warnings:
        written["warnings"] = [_shortened(warning) for warning in response.warnings]
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": written}
    return json.dumps(review, separators=(",", ":")).encode("ascii")


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        # Decoded here, because json would also accept UTF-16; surrogates cannot be in UTF-8.
        review = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        if _SURROGATE_ESCAPE.search(body):
            review = _without_surrogates(review)
    except UnicodeDecodeError:
        raise MalformedReview("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise MalformedReview("the body is nested too deeply") from None
    except ValueError:
        raise MalformedReview("the body has a number that is too long or not finite") from None
    if not isinstance(review, dict):
        raise MalformedReview("the body is not a JSON object")
    if (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise MalformedReview(f"the body is not an {KIND} of {API_VERSION}")
    return review


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, as Go does: UTF-8 cannot represent them."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _member(parent: Mapping[str, Any], name: str, prefix: str = "") -> Mapping[str, Any]:
    value = parent.get(name)
    if not isinstance(value, dict):
        raise MalformedReview(f"{prefix}{name} is missing or not a JSON object")
    return value


def _text(parent: Mapping[str, Any], name: str, prefix: str = "request.") -> str:
    value = parent.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReview(f"{prefix}{name} must be a string")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 1]}…"
