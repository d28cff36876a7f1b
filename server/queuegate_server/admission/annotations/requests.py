"""Decodes AdmissionReviews for the annotation endpoints. Pure.

Bodies are decoded on the event loop, so decoding must be cheap for any input. msgspec decodes only
the members that the rules inspect (3 MiB in 10 ms, without extra memory).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

import msgspec

from queuegate_server.admin.bodies import count_entries
from queuegate_server.admission.annotations.rules import AdmissionRequest
from queuegate_server.admission.annotations.workloads import (
    METADATA,
    POD,
    REVISION,
    UnreadableObject,
)
from queuegate_server.admission.server.review import KIND, decoding, read_request
from queuegate_server.admission.server.webhook_limits import (
    MAX_MAP_ENTRIES,
    MAX_REVISION_BYTES,
    MAX_REVISION_ENTRIES,
)


class _AnyObject(TypedDict):
    """Any JSON object."""


class _Metadata(TypedDict, total=False):
    name: str | None
    annotations: msgspec.Raw
    labels: msgspec.Raw


class _Pod(TypedDict, total=False):
    metadata: _Metadata | None
    spec: _AnyObject | None


class _TemplateSpec(TypedDict, total=False):
    template: _Pod | None


class _Workload(TypedDict, total=False):
    spec: _TemplateSpec | None


class _CronJobSpec(TypedDict, total=False):
    jobTemplate: _Workload | None


class _CronJob(TypedDict, total=False):
    spec: _CronJobSpec | None


class _Revision(TypedDict, total=False):
    data: Any


class _ConfigMap(TypedDict, total=False):
    metadata: _Metadata | None
    data: msgspec.Raw
    binaryData: msgspec.Raw


_STRINGS: Final = msgspec.json.Decoder(dict[str, str | None] | None)
_GROUPS: Final = msgspec.json.Decoder(list[str] | None)
_OBJECTS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = MappingProxyType(
    {
        **dict.fromkeys(METADATA, msgspec.json.Decoder(_Workload)),
        POD: msgspec.json.Decoder(_Pod),
        "Binding": msgspec.json.Decoder(_Pod),
        "CronJob": msgspec.json.Decoder(_CronJob),
        "ConfigMap": msgspec.json.Decoder(_ConfigMap),
        REVISION: msgspec.json.Decoder(_Revision),
    }
)


def read_review(body: bytes) -> AdmissionRequest:
    """Decode the AdmissionRequest in a body. Raises MalformedReview.

    An invalid object is decoded as an UnreadableObject. If a rule reads the object, the request is
    denied.
    """
    request = read_request(body)
    with decoding(f"an {KIND}"):
        groups = _bounded(_GROUPS, request["userInfo"].get("groups"), "groups")
    kind = request["kind"].get("kind") or ""
    return AdmissionRequest(
        kind=kind,
        operation=request.get("operation") or "",
        namespace=request.get("namespace") or "",
        user=request["userInfo"].get("username") or "",
        groups=tuple(groups or ()),
        new=_object(kind, request.get("object")),
        old=_object(kind, request.get("oldObject")),
        uid=request["uid"],
        name=request.get("name") or "",
    )


def _object(kind: str, raw: msgspec.Raw | None) -> object:
    """Decode the members inspected by the rules; return an UnreadableObject on failure."""
    if raw is None or kind not in _OBJECTS:
        return None
    if kind == REVISION:
        text = bytes(raw)
        if len(text) > MAX_REVISION_BYTES:
            return UnreadableObject(f"the {kind} is longer than {MAX_REVISION_BYTES} bytes")
        if count_entries(text) > MAX_REVISION_ENTRIES:
            return UnreadableObject(f"the {kind} has more than {MAX_REVISION_ENTRIES} entries")
    try:
        value = _OBJECTS[kind].decode(raw)
        if kind != REVISION:
            _read_maps(value)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        return UnreadableObject(f"the {kind} is not valid: {error}")
    return value


def _read_maps(node: dict[str, Any]) -> None:
    """Decode an object's string maps in place."""
    for name, value in node.items():
        if isinstance(value, dict):
            _read_maps(value)
        elif isinstance(value, msgspec.Raw):
            node[name] = _bounded(_STRINGS, value, name)


def _bounded(decoder: "msgspec.json.Decoder[Any]", raw: msgspec.Raw | None, name: str) -> Any:
    """Decode a list or map of strings. The length is limited, because each entry becomes a Python
    object.
    """
    if raw is None:
        return None
    # Bound the entries by counting unescaped quotation marks. Each entry has at least one, and
    # usually four.
    text = bytes(raw)
    if text.count(b'"') - text.count(b'\\"') > 4 * MAX_MAP_ENTRIES:
        raise msgspec.ValidationError(f"{name}: more than {MAX_MAP_ENTRIES} entries")
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{name}: {error}") from None
