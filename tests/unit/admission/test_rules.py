"""Cases of the rules that the vectors do not hold."""

from typing import Any

import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.rules import Request, decide, verify
from queuegate_server.admission.settings import read_settings

SETTINGS = read_settings({"admissionController.accessControl.externalUsers": "^portal$"})
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
    verdict = rule(Request("Binding", "CREATE", namespace, user, (), value), SETTINGS, {})
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
    verdict = decide(Request("Pod", "CREATE", "dev", "bob", (), value), SETTINGS, {})
    assert not verdict.allowed
    assert message in verdict.message


def test_a_key_without_a_value_is_an_empty_one() -> None:
    value = {"metadata": {"annotations": {"other": None}}}
    verdict = decide(Request("Pod", "CREATE", "dev", "bob", (), value), SETTINGS, {})
    annotations = {"other": "", ANNOTATION: '{"user":"bob"}'}
    (operation,) = verdict.patch
    assert operation["value"] == annotations
