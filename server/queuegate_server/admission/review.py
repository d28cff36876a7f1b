"""An AdmissionReview in, an AdmissionReview out. Pure: bytes, no web server."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from queuegate_server.admission.rules import Request, Verdict

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_LONGEST_MESSAGE: Final = 8 * 1024
_FORBIDDEN: Final = 403
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class MalformedReview(ValueError):
    """The body is no AdmissionReview; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Review:
    """A question of the API server."""

    uid: str
    name: str
    request: Request


def read_review(body: bytes) -> Review:
    """Read a body. Raises MalformedReview.

    The objects in it are not looked at: what is wrong with them is a refusal, and not a
    malformed review.
    """
    request = _member(_parse(body), "request", dict)
    kind = _member(request, "kind", dict, "request.")
    user = _member(request, "userInfo", dict, "request.")
    groups = user.get("groups")
    if groups is None:
        groups = []
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise MalformedReview("request.userInfo.groups must be a list of strings")
    uid = _text(request, "uid")
    if not uid:
        raise MalformedReview("request.uid must not be empty")
    return Review(
        uid,
        _text(request, "name"),
        Request(
            kind=_text(kind, "kind", "request.kind."),
            operation=_text(request, "operation"),
            namespace=_text(request, "namespace"),
            user=_text(user, "username", "request.userInfo."),
            groups=tuple(groups),
            new=request.get("object"),
            old=request.get("oldObject"),
        ),
    )


def write_review(uid: str, verdict: Verdict, warnings: Sequence[str] = ()) -> bytes:
    """Write the answer to the review with that uid."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if verdict.message:
        message = _shortened(verdict.message)
        response["status"] = {"code": _FORBIDDEN, "reason": "Forbidden", "message": message}
    if verdict.patch:
        patch = json.dumps(verdict.patch, ensure_ascii=False, separators=(",", ":"))
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(patch.encode()).decode("ascii")
    if warnings:
        response["warnings"] = [_shortened(warning) for warning in warnings]
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": response}
    return json.dumps(review, separators=(",", ":")).encode("ascii")


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        # As text, for bytes could also be taken for UTF-16; surrogates cannot be in it.
        review = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        if _SURROGATE_ESCAPE.search(body):
            review = _whole(review)
    except UnicodeDecodeError:
        raise MalformedReview("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise MalformedReview("the body is nested too deeply") from None
    except ValueError:
        raise MalformedReview("the body holds a number that is too long, or none") from None
    if not isinstance(review, dict):
        raise MalformedReview("the body is not a JSON object")
    if (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise MalformedReview(f"the body is not a {KIND} of {API_VERSION}")
    return review


def _whole(value: Any) -> Any:
    """Replace halves of surrogate pairs, as Go does: UTF-8 cannot carry them."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _member(
    parent: Mapping[str, Any], name: str, kind: type[dict[str, Any]], prefix: str = ""
) -> Mapping[str, Any]:
    value = parent.get(name)
    if not isinstance(value, kind):
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
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"
