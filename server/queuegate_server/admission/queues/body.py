"""Decodes an AdmissionReview with its complete objects. Pure.

Unlike `admission.review`, which decodes only the members that its rules inspect, all of an object
is decoded, because a name may stand anywhere in it. The number of values is limited before that.
"""

import re
from collections.abc import Generator
from typing import Any, Final, Required, TypedDict

import msgspec

from queuegate_server.admission.queues.model import QueueReview
from queuegate_server.admission.queues.walk import MAX_NODES
from queuegate_server.admission.review import API_VERSION, KIND, MalformedReview, decoding
from queuegate_server.runtime.resources import no_garbage_collection

MAX_GROUPS: Final = 10_000
MAX_ENTRIES: Final = 2 * MAX_NODES
"""The maximum number of entries in the old and the new object together. Each becomes a Python
object before the objects can be searched."""
_STRING: Final = re.compile(rb'"[^"]*+"?')
"""A string without escaped quotes; matches unterminated strings as well."""
_STEP_BYTES: Final = 64 * 1024
"""How many bytes are searched for strings in a step; 0.1 to 3 ms."""


class _Kind(TypedDict, total=False):
    group: str | None
    kind: str | None


class _UserInfo(TypedDict, total=False):
    username: str | None
    groups: list[str] | None


class _Request(TypedDict, total=False):
    uid: Required[str]
    kind: Required[_Kind]
    userInfo: Required[_UserInfo]
    operation: str | None
    subResource: str | None
    namespace: str | None
    name: str | None
    dryRun: bool | None
    object: dict[str, Any] | None
    oldObject: dict[str, Any] | None


class _Review(TypedDict):
    apiVersion: str
    kind: str
    request: _Request


_REVIEW: Final = msgspec.json.Decoder(_Review)


def _count_entries(text: bytes) -> int:
    """Return at least the number of entries of objects and lists in JSON text.

    Each entry but the first follows a comma; strings may contain more of them. An entry may be
    empty and have only brackets.
    """
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _limit_entries(body: bytes) -> Generator[None, None, None]:
    """Raise MalformedReview in short steps if there are too many entries."""
    if _count_entries(body) <= MAX_ENTRIES:
        return
    yield
    # Outside strings, JSON has no backslash: decoding ends there.
    body = body.replace(rb"\\", b"")
    yield
    body = body.replace(rb"\"", b"")
    yield
    entries = 0
    is_in_string = False
    for start in range(0, len(body), _STEP_BYTES):
        text = body[start : start + _STEP_BYTES]
        if is_in_string:
            text = b'"' + text
        is_in_string = text.count(b'"') % 2 == 1
        entries += _count_entries(_STRING.sub(b"", text))
        if entries > MAX_ENTRIES:
            raise MalformedReview(f"the objects have more than {MAX_ENTRIES // 2} entries")
        yield


def read_queue_review(body: bytes) -> Generator[None, None, QueueReview]:
    """Decode the request in a body, in short steps. Raises MalformedReview.

    Decoding itself is one step, of up to 15 ms.
    """
    yield from _limit_entries(body)
    # Each collection would visit all objects decoded so far, which takes longer than decoding.
    with decoding(f"an {KIND}"), no_garbage_collection():
        review = _REVIEW.decode(body)
    yield
    if (review["apiVersion"], review["kind"]) != (API_VERSION, KIND):
        raise MalformedReview(f"the body is not an {KIND} of {API_VERSION}")
    request = review["request"]
    if not request["uid"]:
        raise MalformedReview("request.uid must not be empty")
    user, groups = request["userInfo"].get("username"), request["userInfo"].get("groups") or ()
    if not user:
        raise MalformedReview("request.userInfo.username must not be empty")
    if len(groups) > MAX_GROUPS:
        raise MalformedReview(f"request.userInfo.groups has more than {MAX_GROUPS} items")
    kind = request["kind"]
    return QueueReview(
        uid=request["uid"],
        group=kind.get("group") or "",
        kind=kind.get("kind") or "",
        subresource=request.get("subResource") or "",
        operation=request.get("operation") or "",
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
        user=user,
        groups=tuple(groups),
        new=request.get("object"),
        old=request.get("oldObject"),
        dry_run=request.get("dryRun") or False,
    )
