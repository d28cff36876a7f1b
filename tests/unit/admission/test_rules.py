"""Cases of the rules that the vectors do not hold."""

from typing import Any

import jsonpatch
import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.rules import AdmissionRequest, decide, verify
from queuegate_server.admission.annotations.workloads import METADATA
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from tests.support.rows import rows

SETTINGS = read_settings(
    {
        "admissionController.accessControl.externalUsers": "^portal$",
        "admissionController.filtering.bypassNamespaces": "^kube-system$,^bypass$",
        "admissionController.filtering.noLabelNamespaces": "^nolabel$",
    }
)
FORGED = {"metadata": {"annotations": {ANNOTATION: '{"user":"eve"}'}}}


@pytest.mark.parametrize("rule", [decide, verify])
@rows
def test_a_binding_sets_no_annotation(
    rule: Any, value: Any, user: str, namespace: str, allowed: bool
) -> None:
    """The API server writes a binding's annotations over those of the pod."""
    verdict = rule(AdmissionRequest("Binding", "CREATE", namespace, user, (), value), SETTINGS, {})
    assert (verdict.allowed, verdict.patch) == (allowed, ())


@rows
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


APP_ID = "yunikorn.apache.org/app-id"
APPLICATIONS: dict[str, dict[str, Any]] = {
    "no id": {},
    "an empty label": {"labels": {APP_ID: ""}},
    "the label": {"labels": {APP_ID: "a"}},
    "the old label": {"labels": {"applicationId": "a"}},
    "the label of Spark": {"labels": {"spark-app-selector": "a"}},
    "the annotation": {"annotations": {APP_ID: "a"}},
}
"""Every place that YuniKorn's shim reads an application id from."""


def made(kind: str, annotation: str | None, application: str) -> dict[str, Any]:
    return built(kind, annotation, {"labels": {"applicationId": application}})


def built(kind: str, annotation: str | None, metadata: dict[str, Any]) -> dict[str, Any]:
    value = dict(metadata)
    if annotation is not None:
        value["annotations"] = {**value.get("annotations", {}), ANNOTATION: annotation}
    for step in reversed(METADATA[kind]):
        value = {step: value}
    return value


@rows
def test_joining_an_application_later(
    kind: str, user: str, old: str | None, new: str | None, message: str, added: bool
) -> None:
    """An annotation from before it was checked everywhere must not count in an application."""
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


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize("kind", sorted(METADATA))
@pytest.mark.parametrize("namespace", ["dev", "nolabel", "bypass"])
@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_forged_annotation_is_refused_everywhere(
    rule: Any, kind: str, namespace: str, application: str
) -> None:
    """Whatever the filters say, and wherever the object names its application, or nowhere."""

    def outcome(operation: str, user: str, before: str | None, after: str | None) -> bool:
        new, old = (built(kind, text, APPLICATIONS[application]) for text in (after, before))
        request = AdmissionRequest(kind, operation, namespace, user, (), new, old)
        allowed: bool = rule(request, SETTINGS, {}).allowed
        return allowed

    controller = "system:serviceaccount:kube-system:job-controller"
    may_change = kind != "Pod"
    for user, may_set in (("bob", False), ("portal", True), (controller, True)):
        assert outcome("CREATE", user, None, EVE) is may_set
        assert outcome("UPDATE", user, None, EVE) is (may_set and may_change)
        assert outcome("UPDATE", user, BOB, EVE) is (may_set and may_change)
        assert outcome("UPDATE", user, "", EVE) is (may_set and may_change)
        assert outcome("UPDATE", user, EVE, EVE)


@pytest.mark.parametrize("rule", [decide, verify])
@rows
def test_who_is_trusted_without_settings(rule: Any, account: str, may_set: bool) -> None:
    """Not the scheduler: it makes placeholders with annotations that users write."""
    request = AdmissionRequest("Pod", "CREATE", "dev", account, (), FORGED)
    assert rule(request, read_settings({}), {}).allowed is may_set


@pytest.mark.parametrize("kind", sorted(METADATA))
@rows
def test_where_the_annotation_is_added(
    kind: str, namespace: str, application: str, added: bool
) -> None:
    value = built(kind, None, APPLICATIONS[application])
    request = AdmissionRequest(kind, "CREATE", namespace, "bob", (), value)
    # A pod gets it wherever the namespace is processed.
    expected = added or (kind == "Pod" and namespace == "nolabel")
    assert bool(decide(request, SETTINGS, {}).patch) is expected


def test_ways_that_remain() -> None:
    """The threat model names them: the webhook records who made an object, and no more."""
    for kind in METADATA:
        # Bob edits the image of Eve's workload.
        same = built(kind, EVE, APPLICATIONS["the label"])
        request = AdmissionRequest(kind, "UPDATE", "dev", "bob", (), same, same)
        assert decide(request, SETTINGS, {}).allowed
        assert verify(request, SETTINGS, {}).allowed
    # Bob's pod has the ID of Eve's application: it is recorded as his; YuniKorn does not look.
    joining = built("Pod", None, APPLICATIONS["the label"])
    response = decide(AdmissionRequest("Pod", "CREATE", "dev", "bob", (), joining), SETTINGS, {})
    assert response.allowed
    assert response.patch[0]["value"][ANNOTATION] == BOB


@pytest.mark.parametrize("kind", sorted(METADATA))
@pytest.mark.parametrize("application", APPLICATIONS)
@pytest.mark.parametrize("namespace", ["dev", "nolabel", "bypass"])
def test_an_annotation_that_an_update_leaves_out(
    kind: str, application: str, namespace: str
) -> None:
    """A pod keeps it; a workload gets it back where one is added, and may lose it elsewhere."""
    named = APPLICATIONS[application]
    new, old = built(kind, None, named), built(kind, EVE, named)
    request = AdmissionRequest(kind, "UPDATE", namespace, "bob", (), new, old)
    response = decide(request, SETTINGS, {})
    assert response.allowed is (kind != "Pod")
    if response.allowed:
        jsonpatch.apply_patch(new, list(response.patch), in_place=True)
        belongs = application not in {"no id", "an empty label"}
        kept = namespace == "dev" or (namespace == "nolabel" and belongs)
        assert new == (old if kept else built(kind, None, named))
