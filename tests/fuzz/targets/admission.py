"""Bodies of admission reviews: an answer, and no allowed object names a user that the requester
may not name.

The first byte of an input selects what is known of the namespace; the rest is the body.
"""

import copy
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import jsonpatch

from queuegate import user_info
from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import AdmissionRequest, decide, verify
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from queuegate_server.admission.server.review import (
    AdmissionResponse,
    MalformedReview,
    write_review,
)
from tests.support.admission_vectors import CASES, body
from tests.support.servers.webhook import patch_of

_KEY: Final = "yunikorn.apache.org/user.info"
_LABEL: Final = "yunikorn.apache.org/username"
_TEMPLATE: Final = ["spec", "template", "metadata"]
_PATHS: Final[Mapping[str, list[str]]] = {
    "Pod": ["metadata"],
    "Binding": ["metadata"],
    "CronJob": ["spec", "jobTemplate", *_TEMPLATE],
    "Deployment": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "Job": _TEMPLATE,
}
TOKENS: Final = (b"\\ud800", b"null", b"true", b"{}", b"[]", b'""', b"1e999", b"NaN", b'"uid":"x",')
_APPLICATION: Final = "yunikorn.apache.org/app-id"
_VALUES: Final[Mapping[str, list[Any]]] = {
    "kind": [*_PATHS, "Service", {"kind": "Pod"}, {"kind": "Deployment"}],
    "operation": ["CREATE", "UPDATE", "DELETE", "CONNECT", ""],
    "namespace": ["dev", "nolabel", "kube-system", ""],
    "username": ["eve", "portal", "system:serviceaccount:kube-system:x", "\ud800", "portal\n"],
    "groups": [["gateways"], ["dev", "ops"], [""], None],
    "object": [],
    "oldObject": [],
    "annotations": [{_KEY: '{"user":"bob"}'}, {_KEY: '{"user":"eve"}'}, {_KEY: None}],
    "labels": [{"applicationId": "a"}, {"app": "yunikorn"}, {_APPLICATION: ""}, {_LABEL: "eve"}],
    _LABEL: ["bob", "eve", "", None],
    _KEY: ['{"user":"bob"}', '{"user":"eve"}', '{"user":"eve","groups":["dev","ops"]}', "", "x"],
    _APPLICATION: ["a", ""],
    "metadata": [{}],
    "spec": [{}],
    "template": [{"metadata": {}}],
    "jobTemplate": [{}],
}
_ANYTHING: Final[list[Any]] = [None, "", {}, [], 0, True, "x"]
_PREFIX: Final = "admissionController."
_SETTINGS: Final = read_settings(
    {
        f"{_PREFIX}accessControl.externalUsers": "^portal$",
        f"{_PREFIX}accessControl.externalGroups": "^gateways$",
        f"{_PREFIX}filtering.bypassNamespaces": "^kube-system$",
        f"{_PREFIX}filtering.noLabelNamespaces": "^nolabel$",
    }
)
_CONTROLLERS: Final = "system:serviceaccount:kube-system:"
_NAMESPACES: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"yunikorn.apache.org/namespace.enableYuniKorn": "true"},
    {"yunikorn.apache.org/namespace.enableYuniKorn": "false"},
    {"yunikorn.apache.org/namespace.generateAppId": "true"},
    {"yunikorn.apache.org/namespace.generateAppId": "false"},
)


def target(data: bytes) -> None:
    """Review one body."""
    annotations = _NAMESPACES[data[0] % len(_NAMESPACES)] if data else {}
    try:
        request = read_review(data[1:])
    except MalformedReview:
        return
    assert request.uid
    mutated = decide(request, _SETTINGS, annotations)
    verified = verify(request, _SETTINGS, annotations)
    assert not verified.patch
    for response in (mutated, verified):
        assert response.allowed or response.message
        if response.allowed and not _may_name_anyone(request):
            _judge(request, _stored(request, response))
    if mutated.allowed:
        left = replace(request, new=_stored(request, mutated))
        again = verify(left, _SETTINGS, annotations)
        assert again.allowed, again.message


def seeds() -> Iterable[bytes]:
    """The vectors."""
    for number, case in enumerate(CASES):
        yield bytes([number % len(_NAMESPACES)]) + body(case)


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """Return the input with one member of an object set, copied or removed; None if the body is
    no review.
    """
    try:
        review = json.loads(data[1:])
        objects = list(_objects(review["request"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not objects:
        return None
    where = rng.choice(objects)
    key = rng.choice([*where] if where and rng.random() < 0.7 else [*_VALUES])
    if key in where and rng.random() < 0.3:
        del where[key]
    else:
        others = [other[key] for other in objects if key in other]
        where[key] = copy.deepcopy(
            rng.choice([*_VALUES.get(key, ()), *others, rng.choice(_ANYTHING)])
        )
    return data[:1] + json.dumps(review).encode()


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            yield found
            stack += found.values()
        elif isinstance(found, list):
            stack += found


def _stored(request: AdmissionRequest, response: AdmissionResponse) -> object:
    """Return the object that the API server keeps, after the answer has travelled as bytes."""
    answer = json.loads(write_review(request.uid, response))["response"]
    assert answer["allowed"] is response.allowed
    patch = patch_of(answer)
    return jsonpatch.apply_patch(copy.deepcopy(request.new), patch) if patch else request.new


def _may_name_anyone(request: AdmissionRequest) -> bool:
    named = request.user == "portal" or request.user.startswith(_CONTROLLERS)
    return named or "gateways" in request.groups


def _judge(request: AdmissionRequest, stored: object) -> None:
    if request.kind not in _PATHS or request.operation in {"DELETE", "CONNECT"}:
        return  # It creates no pod.
    after, before = (_stated(request.kind, value) for value in (stored, request.old))
    label, old_label = (_label(request.kind, value) for value in (stored, request.old))
    if request.kind == "Binding":
        assert not label, label
    elif not after:
        known = old_label if request.operation == "UPDATE" and not before else ""
        assert label in {"", request.user, known}, label
    own = user_info.build(request.user, request.groups)
    if request.kind == "Binding":
        assert after is None, after
    elif request.operation != "UPDATE":
        assert after in {own, None}, after
    elif request.kind == "Pod":
        assert (after or "") == (before or ""), after
    else:
        assert (after or "") in {before or "", own, ""}, after


def _stated(kind: str, value: Any) -> str | None:
    """Return the annotation in an object, as the API server would read it."""
    return _text(value, *_PATHS[kind], "annotations", _KEY)


def _label(kind: str, value: Any) -> str:
    """Return the user label in an object, as the API server would read it."""
    return _text(value, *_PATHS[kind], "labels", _LABEL) or ""


def _text(value: Any, *path: str) -> str | None:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
