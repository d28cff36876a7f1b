"""Invariants that hold for any request, whatever it contains."""

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from queuegate import user_info
from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import AdmissionRequest, decide, verify
from queuegate_server.admission.annotations.workloads import METADATA
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from queuegate_server.admission.server.review import AdmissionResponse, write_review
from tests.support.servers.webhook import patch_of

SETTINGS = read_settings(
    {
        "admissionController.accessControl.externalUsers": "^portal$",
        "admissionController.accessControl.externalGroups": "^gateways$",
        "admissionController.filtering.bypassNamespaces": "^kube-system$",
        "admissionController.filtering.noLabelNamespaces": "^nolabel$",
    }
)
LABEL = "yunikorn.apache.org/username"
LABELS = ("app", "applicationId", "yunikorn.apache.org/app-id", LABEL, "x")

users = st.sampled_from(["alice", "bob", "mallory", "portal"]) | st.text(max_size=5)
system_users = st.just("system:serviceaccount:kube-system:x")
groups = st.lists(st.sampled_from(["dev", "gateways", "system:authenticated"]), max_size=2)
texts = st.builds(user_info.build, users, groups) | st.sampled_from(["", "{}", "xyz", "null"])
others = st.sampled_from([{}, {"a": "1"}, {"a": "", "b/c": "x y"}])


@st.composite
def metadata(draw: st.DrawFn) -> Any:
    """Mostly with the annotation: that is where it can go wrong."""
    value: dict[str, Any] = {}
    annotations: Any = dict(draw(others))
    if draw(st.integers(0, 3)):
        annotations[ANNOTATION] = draw(texts)
    if draw(st.booleans()):
        annotations["yunikorn.apache.org/app-id"] = draw(st.sampled_from(["", "a"]))
    if annotations or draw(st.booleans()):
        value["annotations"] = annotations or draw(st.sampled_from([None, {}]))
    if draw(st.booleans()):
        label = draw(st.sampled_from(LABELS))
        value["labels"] = draw(st.sampled_from([None, {}, {label: "yunikorn"}, {label: ""}]))
        if draw(st.booleans()):
            value["labels"] = {**(value["labels"] or {}), LABEL: draw(users)}
    return value


@st.composite
def objects(draw: st.DrawFn, kind: str) -> Any:
    """Objects of a kind, some cut off at a depth, with other members beside the path."""
    value: Any = draw(metadata())
    path = METADATA[kind]
    cut = draw(st.integers(0, 5 * len(path)))
    for depth in range(len(path) - 1, -1, -1):
        if cut == depth:
            value = draw(st.sampled_from([None, {}]))
        value = {path[depth]: value, "beside": depth}
    return value


kinds = st.just("Pod") | st.sampled_from(sorted(METADATA))


@st.composite
def requests(draw: st.DrawFn) -> AdmissionRequest:
    kind = draw(kinds)
    operation = draw(st.sampled_from(["CREATE", "UPDATE"]))
    new = draw(objects(kind))
    old = None
    if operation == "UPDATE":
        old = copy.deepcopy(new) if draw(st.booleans()) else draw(objects(kind))
    return AdmissionRequest(
        kind,
        operation,
        draw(st.sampled_from(["", "dev", "dev", "nolabel", "kube-system"])),
        draw(users if draw(st.integers(0, 4)) else system_users),
        tuple(draw(groups)),
        new,
        old,
    )


def annotations_in(kind: str, value: Any) -> dict[str, str]:
    return metadata_in(kind, value).get("annotations") or {}


def metadata_in(kind: str, value: Any) -> dict[str, Any]:
    for step in METADATA[kind]:
        value = (value or {}).get(step)
    return value or {}


def believed_label(kind: str, value: Any) -> str:
    """The user whom YuniKorn 1.9 takes from the label."""
    if annotations_in(kind, value).get(ANNOTATION):
        return ""
    return (metadata_in(kind, value).get("labels") or {}).get(LABEL) or ""


def patched(request: AdmissionRequest, verdict: AdmissionResponse) -> Any:
    """The object that the API server would keep, after the patch has travelled as bytes."""
    response = json.loads(write_review("u", verdict))["response"]
    return jsonpatch.apply_patch(copy.deepcopy(request.new), patch_of(response))


def without_annotation(kind: str, value: Any) -> Any:
    """The object without the annotation, and without parents that held nothing else."""
    value = copy.deepcopy(value)
    nodes = [value]
    for step in (*METADATA[kind], "annotations"):
        below = nodes[-1].get(step)
        if below is None:
            nodes[-1].pop(step, None)
            break
        nodes.append(below)
    else:
        nodes[-1].pop(ANNOTATION, None)
    steps = (*METADATA[kind], "annotations")
    for depth in range(len(nodes) - 1, 0, -1):
        if not nodes[depth]:
            nodes[depth - 1].pop(steps[depth - 1], None)
    return value


def may_set(request: AdmissionRequest) -> bool:
    return (
        request.user == "portal"
        or any(group == "gateways" for group in request.groups)
        or request.user.startswith("system:serviceaccount:kube-system:")
    )


def in_an_application(request: AdmissionRequest, value: Any) -> bool:
    for step in METADATA[request.kind]:
        value = (value or {}).get(step)
    metadata = value if isinstance(value, dict) else {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    application = (
        labels.get("applicationId")
        or labels.get("yunikorn.apache.org/app-id")
        or annotations.get("yunikorn.apache.org/app-id")
    )
    return request.namespace != "kube-system" and (
        request.namespace != "nolabel" or bool(application)
    )


@settings(max_examples=1000)
@given(requests(), st.sampled_from([decide, verify]))
def test_no_accepted_object_carries_an_annotation_that_the_requester_may_not_set(
    request: AdmissionRequest, rule: Any
) -> None:
    """In every namespace and application, an accepted object of a requester outside the rules
    names her, or carries what was there before, or nothing."""
    assume(not may_set(request))
    verdict = rule(request, SETTINGS, {})
    if not verdict.allowed:
        return
    after = annotations_in(request.kind, patched(request, verdict)).get(ANNOTATION)
    own = user_info.build(request.user, request.groups)
    if request.operation == "CREATE":
        assert after in {own, None}
        return
    before = annotations_in(request.kind, request.old).get(ANNOTATION) or ""
    if request.kind == "Pod":
        assert (after or "") == before
    joins = in_an_application(request, request.new) and not in_an_application(request, request.old)
    assert (after or "") in ({own, ""} if joins else {before, ""})


@settings(max_examples=1000)
@given(requests(), st.sampled_from([decide, verify]))
def test_no_accepted_object_names_somebody_else_by_its_label(
    request: AdmissionRequest, rule: Any
) -> None:
    """Unless the old object did."""
    assume(not may_set(request))
    verdict = rule(request, SETTINGS, {})
    if verdict.allowed:
        named = believed_label(request.kind, patched(request, verdict))
        old = believed_label(request.kind, request.old) if request.operation == "UPDATE" else ""
        assert named in {"", request.user, old}


@settings(max_examples=200)
@given(requests())
def test_a_patch_changes_nothing_else(request: AdmissionRequest) -> None:
    verdict = decide(request, SETTINGS, {})
    after = patched(request, verdict)
    if not verdict.patch:
        assert after == request.new
        return
    kind = request.kind
    assert without_annotation(kind, after) == without_annotation(kind, request.new)
    was = {k: v for k, v in annotations_in(kind, request.new).items() if k != ANNOTATION}
    now = {k: v for k, v in annotations_in(kind, after).items() if k != ANNOTATION}
    assert now == was
    assert isinstance(annotations_in(kind, after)[ANNOTATION], str)


@settings(max_examples=200)
@given(requests())
def test_the_validating_webhook_agrees_with_the_mutating_one(request: AdmissionRequest) -> None:
    """The validating webhook takes what the mutating one leaves, and nothing it refuses,
    except an annotation that names the requester: it may be the one that was just added."""
    verdict = decide(request, SETTINGS, {})
    second = AdmissionRequest(
        request.kind, request.operation, request.namespace, request.user, request.groups,
        patched(request, verdict), request.old,
    )  # fmt: skip
    verified = verify(second, SETTINGS, {})
    assert not verified.patch
    if verdict.allowed:
        assert verified.allowed
    elif verified.allowed:
        own = user_info.build(request.user, request.groups)
        assert annotations_in(request.kind, request.new).get(ANNOTATION) == own


@pytest.mark.parametrize("kind", sorted(METADATA))
@pytest.mark.parametrize("bypass", ["true", "false"])
@pytest.mark.parametrize("label", ["bob", "root", "", None])
def test_a_label_does_not_stand_for_the_annotation(
    kind: str, bypass: str, label: str | None
) -> None:
    """Not even with bypassAuth, where YuniKorn leaves objects with the label alone."""
    rules = read_settings({"admissionController.accessControl.bypassAuth": bypass})
    value: Any = {} if label is None else {"labels": {"yunikorn.apache.org/username": label}}
    for step in reversed(METADATA[kind]):
        value = {step: value}
    verdict = decide(AdmissionRequest(kind, "CREATE", "dev", "bob", (), value), rules, {})
    assert verdict.allowed
    assert verdict.patch


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@given(
    st.sampled_from(sorted(METADATA)),
    st.sampled_from(["CREATE", "UPDATE"]),
    json_values,
    json_values,
)
def test_any_object_gets_an_answer(kind: str, operation: str, new: Any, old: Any) -> None:
    request = AdmissionRequest(kind, operation, "dev", "bob", (), new, old)
    for rule in (decide, verify):
        verdict = rule(request, SETTINGS, {})
        assert verdict.allowed or verdict.message
        if verdict.patch:
            jsonpatch.apply_patch(copy.deepcopy(new), list(verdict.patch))


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    from queuegate_server.admission.server.review import MalformedReview

    try:
        read_review(body)
    except MalformedReview:
        return
    raise AssertionError("a review out of nothing")
