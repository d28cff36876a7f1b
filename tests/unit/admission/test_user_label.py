"""Nobody names another user by the label that YuniKorn up to 1.9 believes without an annotation."""

from typing import Any

import pytest

from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.rules import AdmissionRequest, decide, verify
from queuegate_server.admission.annotations.workloads import METADATA
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from tests.support.rows import rows

LABEL = "yunikorn.apache.org/username"
SETTINGS = read_settings(
    {
        "admissionController.accessControl.externalUsers": "^portal$",
        "admissionController.filtering.bypassNamespaces": "^bypass$",
        "admissionController.filtering.noLabelNamespaces": "^nolabel$",
    }
)
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
ROOT, OWN = {LABEL: "root"}, {LABEL: "mallory"}
ANNOTATED = {ANNOTATION: '{"user":"mallory"}'}


def built(kind: str, labels: Any = None, annotations: Any = None) -> dict[str, Any]:
    value: dict[str, Any] = {"labels": labels or {}, "annotations": annotations or {}}
    for step in reversed(METADATA[kind]):
        value = {step: value}
    return value


def answer(
    kind: str,
    new: Any,
    old: Any = None,
    *,
    rule: Any = decide,
    user: str = "mallory",
    namespace: str = "bypass",
    annotations: Any = None,
    settings: Any = SETTINGS,
) -> Any:
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(kind, operation, namespace, user, (), new, old)
    return rule(request, settings, annotations or {})


@pytest.mark.parametrize("kind", sorted(METADATA))
@pytest.mark.parametrize("rule", [decide, verify])
class TestWhereNoAnnotationIsAdded:
    """A namespace that the filters leave out."""

    def test_a_foreign_name_is_refused(self, kind: str, rule: Any) -> None:
        response = answer(kind, built(kind, ROOT), rule=rule)
        assert not response.allowed
        assert response.message == (
            "user mallory with groups [] is not allowed to set the label"
            f" {LABEL} to another user; remove the label"
        )

    def test_ones_own_name_and_an_empty_one_are_not(self, kind: str, rule: Any) -> None:
        assert answer(kind, built(kind, OWN), rule=rule).allowed
        assert answer(kind, built(kind, {LABEL: ""}), rule=rule).allowed
        assert answer(kind, built(kind, {"app": "yunikorn"}), rule=rule).allowed

    def test_those_who_may_set_the_annotation_may_set_it(self, kind: str, rule: Any) -> None:
        for user in ("portal", CONTROLLER):
            assert answer(kind, built(kind, ROOT), rule=rule, user=user).allowed

    def test_an_update_adds_no_name(self, kind: str, rule: Any) -> None:
        for old in (None, OWN, {LABEL: ""}):
            assert not answer(kind, built(kind, ROOT), built(kind, old), rule=rule).allowed
        assert answer(kind, built(kind, OWN), built(kind), rule=rule).allowed

    def test_an_update_may_keep_or_remove_a_name(self, kind: str, rule: Any) -> None:
        assert answer(kind, built(kind, ROOT), built(kind, ROOT), rule=rule).allowed
        assert answer(kind, built(kind), built(kind, ROOT), rule=rule).allowed

    def test_an_update_that_takes_the_annotation_away(self, kind: str, rule: Any) -> None:
        """The label was there, and nobody believed it."""
        old = built(kind, ROOT, ANNOTATED)
        assert not answer(kind, built(kind, ROOT), old, rule=rule).allowed

    def test_an_empty_annotation_is_none(self, kind: str, rule: Any) -> None:
        empty = built(kind, ROOT, {ANNOTATION: ""})
        assert not answer(kind, empty, built(kind, {}, {ANNOTATION: ""}), rule=rule).allowed

    def test_a_label_of_another_name(self, kind: str, rule: Any) -> None:
        settings = read_settings(
            {"admissionController.filtering.bypassNamespaces": "^bypass$"},
            {"USER_LABEL_KEY": "team/user"},
        )
        for key in (LABEL, "team/user"):
            new = built(kind, {key: "root"})
            assert not answer(kind, new, rule=rule, settings=settings).allowed


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize("namespace", ["dev", "nolabel", "bypass", "kube-system", ""])
def test_the_schedulers_own_label_is_no_way_around(rule: Any, namespace: str) -> None:
    labels = {"app": "yunikorn", "applicationId": "a1", **ROOT}
    assert not answer("Pod", built("Pod", labels), rule=rule, namespace=namespace).allowed
    old = built("Pod", {"app": "yunikorn"})
    assert not answer("Pod", built("Pod", labels), old, rule=rule, namespace=namespace).allowed


@pytest.mark.parametrize("rule", [decide, verify])
@rows
def test_an_annotation_of_the_namespace_is_no_way_around(rule: Any, switch: str) -> None:
    annotations = {switch: "false"}
    response = answer(
        "Deployment",
        built("Deployment", ROOT),
        rule=rule,
        namespace="dev",
        annotations=annotations,
    )
    assert not response.allowed


@pytest.mark.parametrize("kind", sorted(METADATA))
def test_an_annotation_that_is_added_overrides_the_label(kind: str) -> None:
    response = answer(kind, built(kind, ROOT), namespace="dev")
    assert response.allowed
    assert response.patch[0]["value"][ANNOTATION] == ANNOTATED[ANNOTATION]
    assert answer(kind, built(kind, ROOT, ANNOTATED), namespace="dev", rule=verify).allowed
    assert not answer(kind, built(kind, ROOT), namespace="dev", rule=verify).allowed


def test_a_label_from_before_the_checks_does_not_join_an_application() -> None:
    old = built("Pod", ROOT)
    new = built("Pod", {**ROOT, "applicationId": "a"})
    assert not answer("Pod", new, old, namespace="nolabel").allowed
    assert answer("Pod", old, old, namespace="nolabel").allowed


@pytest.mark.parametrize("rule", [decide, verify])
@pytest.mark.parametrize("user", ["mallory", "root", "portal", CONTROLLER])
def test_a_binding_brings_no_name(rule: Any, user: str) -> None:
    """The API server writes the labels of a binding into the pod."""
    request = AdmissionRequest("Binding", "CREATE", "dev", user, (), built("Pod", ROOT))
    assert not rule(request, SETTINGS, {}).allowed
    other = built("Pod", {"topology.kubernetes.io/zone": "z", LABEL: ""})
    assert rule(AdmissionRequest("Binding", "CREATE", "dev", user, (), other), SETTINGS, {}).allowed
