"""Warnings about `controllers` and `exempt`: accounts with unchecked kinds, and wide patterns."""

from typing import Any

import pytest

from queuegate.policy.named_grants import SERVICE_ACCOUNT
from queuegate_server.admission.queues.kinds import (
    NAMESPACE,
    POD_KINDS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCES,
    TEMPLATE_KINDS,
    WORKLOAD_KINDS,
)
from queuegate_server.admission.queues.listed_kinds import ListedKinds
from queuegate_server.admission.queues.operators import OPERATORS, Operator
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.policy_review import review_settings
from queuegate_server.formats.yunikorn import go_regexp
from queuegate_server.settings.admission import KUBERNETES_CONTROLLERS, QueueChecks
from queuegate_server.settings.model import Settings
from queuegate_server.settings.queue_schedulers import FLAT
from tests.support.rows import rows

ALL: dict[str, Any] = {
    "yunikorn": {},
    "kueue": {},
    **{name: {"below": f"root.{name}"} for name in FLAT},
}
KOORDINATOR = "^system:serviceaccount:koordinator-system:koord-manager$"


def warnings(
    *controllers: str, key: str = "controllers", schedulers: Any = ALL, **queues: Any
) -> list[str]:
    """Return the warnings about patterns, without the position of each."""
    checks = {"schedulers": schedulers, key: controllers, **queues}
    settings = {"policy": {"path": "/queues.yaml"}, "admission": {"queues": checks}}
    found = [str(each) for each in review_settings(Settings.model_validate(settings))]
    start = f"settings: warning: admission.queues.{key}["
    return [each.removeprefix(start) for each in found if each.startswith(start)]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: each.name)
def test_an_operator_is_trusted_only_if_all_its_kinds_are_checked(operator: Operator) -> None:
    """Whether they are is asked of the kinds that the webhook configurations list."""
    kinds = ListedKinds(build_places(QueueChecks.model_validate({"schedulers": ALL})))
    missing = [kind for kind in operator.kinds if not kinds.includes(kind)]
    for account in operator.accounts:
        found = warnings(f"^{account}$")
        assert bool(found) is (operator.chooses or bool(missing) or bool(operator.fetched))
        assert all(f"matches the account of {operator.name}, " in each for each in found)
        for group, kind in missing[:5]:
            assert f"{kind} ({group})" in found[0]
    places = [{"kind": "/".join(kind), "field": "spec.queue"} for kind in missing]
    with_places = {**ALL, "places": places}
    if operator.accounts and not operator.chooses:
        left = warnings(f"^{operator.accounts[0]}$", schedulers=with_places)
        assert all("which may fetch" in each for each in left)
        assert len(left) == bool(operator.fetched)


def test_the_table() -> None:
    accounts = [account for operator in OPERATORS for account in operator.accounts]
    assert len(accounts) == len(set(accounts))
    assert all(operator.chooses is not bool(operator.kinds) for operator in OPERATORS)


def test_each_listed_kind_belongs_to_an_operator() -> None:
    """Or is built in, or of a scheduler, whose fields name queues."""
    known = {kind for operator in OPERATORS for kind in operator.kinds}
    places = build_places(QueueChecks.model_validate({"schedulers": ALL}))
    assert {*WORKLOAD_KINDS, *TEMPLATE_KINDS} - known - NO_OPERATOR == set()
    listed = {*WORKLOAD_KINDS, *TEMPLATE_KINDS, *POD_KINDS, RESOURCE_CLAIM_TEMPLATE, NAMESPACE}
    assert set(RESOURCES) == listed | set(places.fields)


NO_OPERATOR = {
    # A webhook puts its labels into pods that others create.
    ("kubeflow.org", "PodDefault"),
    # The server of Argo Workflows creates its Workflows, in the name of whoever sends an event.
    ("argoproj.io", "WorkflowEventBinding"),
}


def test_the_default_lists_only_controllers_of_kubernetes() -> None:
    assert not warnings(*KUBERNETES_CONTROLLERS)
    patterns = [go_regexp.compile_pattern(each) for each in KUBERNETES_CONTROLLERS]
    trusted = {
        operator.name
        for operator in OPERATORS
        for account in operator.accounts
        if any(each.search(account) for each in patterns)
    }
    assert trusted == {"Kubernetes"}
    for account in ("keda-operator", "job-controller2", "x-job-controller", "generic-worker"):
        assert not any(each.search(f"{SERVICE_ACCOUNT}kube-system:{account}") for each in patterns)


def test_whether_a_kind_is_checked_depends_on_the_settings() -> None:
    kueue: dict[str, Any] = {"kueue": {}}
    [found] = warnings(KOORDINATOR, schedulers=kueue)
    assert found == (
        f'0]: "{KOORDINATOR}" matches the account of Koordinator, which creates objects from kinds'
        " that are not checked: ElasticQuotaProfile (quota.koordinator.sh);"
        " anyone who may create such an object may use any queue (add a place for each to"
        " admission.queues.schedulers.places, such as {kind:"
        " quota.koordinator.sh/ElasticQuotaProfile, field: spec.queue}, or list the account in the"
        " ACLs of its queues instead; see also admission.queues.kinds)"
    )
    below = {"below": "root.koordinator"}
    assert not warnings(KOORDINATOR, schedulers={**kueue, "koordinator": below})
    assert warnings(KOORDINATOR, schedulers={**kueue, "koordinator": {**below, "mode": "off"}})
    assert not warnings(KOORDINATOR, schedulers=kueue, mode="off")
    assert not warnings(KOORDINATOR, schedulers=kueue, kinds="all")


def test_an_operator_in_another_namespace_is_known_by_the_name_of_its_account() -> None:
    [found] = warnings("^system:serviceaccount:tools:tekton-pipelines-controller$")
    assert "matches the account of Tekton Pipelines, which may fetch" in found
    [found] = warnings("^system:serviceaccount:tools:controller$")
    assert "is not an account that queuegate knows" in found


def test_an_unknown_account() -> None:
    pattern = "^system:serviceaccount:team:operator$"
    manager = "^system:serviceaccount:kueue-system:kueue-controller-manager$"
    [found] = warnings(manager, pattern)
    assert found == (
        f'1]: "{pattern}" is not an account that queuegate knows: if it creates pods from a kind'
        " that is not checked, anyone who can create such objects can use any queue (list it in"
        " the ACLs of its queues instead, or move it to exempt once you have made sure that all of"
        " its kinds are checked)"
    )
    assert not warnings(pattern, key="exempt")


@rows
def test_an_operator_that_fetches_templates(account: str, fetches: str, remedy: str) -> None:
    """Even if all kinds are checked."""
    pattern = f"^{SERVICE_ACCOUNT}{account}$"
    [found] = warnings(pattern, kinds="all")
    assert found == (
        f'0]: "{pattern}" matches the account of {fetches}, where this webhook checks no queues;'
        " anyone who may refer to such an object may use any queue (list the account in the ACLs of"
        f" its queues instead, or {remedy})"
    )
    assert not warnings(pattern, key="exempt")


def test_an_account_whose_users_choose_queues() -> None:
    [found] = warnings("^system:serviceaccount:airflow:airflow-(scheduler|worker)$")
    assert "Airflow, whose users choose queues where nobody checks the choice" in found
    assert found.endswith("(list the account in the ACLs of its queues instead)")


@pytest.mark.parametrize("key", ["controllers", "exempt"])
@rows
def test_patterns_that_match_more_than_names(key: str, pattern: str, warning: str) -> None:
    found = [each for each in warnings(pattern, key=key) if ": the pattern " in each]
    assert len(found) == bool(warning)
    quoted = pattern.replace("\\", "\\\\")
    for each in found:
        assert each.startswith(
            (f'0]: the pattern "{pattern}" {warning}', f'0]: the pattern "{quoted}" {warning}')
        )
        assert each.endswith("(write each name in full, between ^ and $, with \\. for a dot)")


def test_a_wide_pattern_and_the_operators_that_it_matches() -> None:
    found = warnings("^system:serviceaccount:kube-system:")
    assert "also matches longer names" in found[0]
    keda = [each for each in found if "matches the account of KEDA" in each]
    kinds = ListedKinds(build_places(QueueChecks.model_validate({"schedulers": ALL})))
    assert bool(keda) is not kinds.includes(("keda.sh", "ScaledJob"))
