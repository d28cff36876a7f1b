"""Cases of the rules that the vectors do not hold."""

from typing import Any

import jsonpatch
import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.rules import AdmissionRequest, decide, verify
from queuegate_server.admission.settings import read_settings
from queuegate_server.admission.workloads import METADATA

SETTINGS = read_settings(
    {
        "admissionController.accessControl.externalUsers": "^portal$",
        "admissionController.filtering.noLabelNamespaces": "^nolabel$",
    }
)
FORGED = {"metadata": {"annotations": {ANNOTATION: '{"user":"eve"}'}}}
OWN = {"metadata": {"annotations": {ANNOTATION: '{"user":"bob"}'}}}


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize(
    ("value", "user", "namespace", "allowed"),
    [
        ({}, "bob", "dev", True),
        ({"metadata": {"annotations": {"other": "x"}}}, "bob", "dev", True),
        (FORGED, "bob", "dev", False),
        (FORGED, "portal", "dev", False),
        (OWN, "bob", "dev", False),
        (FORGED, "bob", "kube-system", True),
        ("no object", "bob", "dev", False),
    ],
)
def test_a_binding_sets_no_annotation(
    rule: Any, value: Any, user: str, namespace: str, allowed: bool
) -> None:
    """The API server writes a binding's annotations over those of the pod."""
    verdict = rule(AdmissionRequest("Binding", "CREATE", namespace, user, (), value), SETTINGS, {})
    assert (verdict.allowed, verdict.patch) == (allowed, ())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"metadata": {"annotations": {ANNOTATION: None}}}, "is not allowed to set"),
        ({"spec": []}, "spec is missing or not a JSON object"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels is not a map"),
    ],
)
def test_objects_that_no_api_server_sends(value: Any, message: str) -> None:
    verdict = decide(AdmissionRequest("Pod", "CREATE", "dev", "bob", (), value), SETTINGS, {})
    assert not verdict.allowed
    assert message in verdict.message


def test_a_key_without_a_value_is_an_empty_one() -> None:
    value = {"metadata": {"annotations": {"other": None}}}
    verdict = decide(AdmissionRequest("Pod", "CREATE", "dev", "bob", (), value), SETTINGS, {})
    annotations = {"other": "", ANNOTATION: '{"user":"bob"}'}
    (operation,) = verdict.patch
    assert operation["value"] == annotations


EVE, BOB = '{"user":"eve"}', '{"user":"bob"}'
NOT_ALLOWED = "user bob with groups [] is not allowed to set user annotation"
CHANGED = "user info annotation change is not allowed"


def made(kind: str, annotation: str | None, application: str) -> dict[str, Any]:
    value: dict[str, Any] = {"labels": {"applicationId": application}}
    if annotation is not None:
        value["annotations"] = {ANNOTATION: annotation}
    for step in reversed(METADATA[kind]):
        value = {step: value}
    return value


@pytest.mark.parametrize(
    ("kind", "user", "old", "new", "message", "added"),
    [
        ("Pod", "bob", EVE, EVE, CHANGED, False),
        ("Pod", "bob", "x", "x", CHANGED, False),
        ("Pod", "bob", BOB, BOB, "", False),
        ("Pod", "bob", None, None, "", False),
        ("Pod", "bob", None, BOB, CHANGED, False),
        ("Pod", "portal", EVE, EVE, "", False),
        ("Pod", "portal", EVE, BOB, CHANGED, False),
        ("Deployment", "bob", EVE, EVE, NOT_ALLOWED, False),
        ("Deployment", "bob", EVE, BOB, "", False),
        ("Deployment", "bob", EVE, None, "", True),
        ("Deployment", "bob", None, None, "", True),
        ("Deployment", "portal", EVE, EVE, "", False),
        ("CronJob", "bob", EVE, EVE, NOT_ALLOWED, False),
    ],
)
def test_joining_an_application_later(
    kind: str, user: str, old: str | None, new: str | None, message: str, added: bool
) -> None:
    """Outside of applications nobody looks at the annotation: one written there must not count."""
    before, after = made(kind, old, ""), made(kind, new, "a")
    verdict = decide(
        AdmissionRequest(kind, "UPDATE", "nolabel", user, (), after, before), SETTINGS, {}
    )
    assert (verdict.allowed, verdict.message, bool(verdict.patch)) == (not message, message, added)
    if added:
        own = made(kind, BOB, "a")
        jsonpatch.apply_patch(after, list(verdict.patch), in_place=True)
        assert after == own
    verified = verify(
        AdmissionRequest(kind, "UPDATE", "nolabel", user, (), after, before), SETTINGS, {}
    )
    assert verified.allowed is verdict.allowed
