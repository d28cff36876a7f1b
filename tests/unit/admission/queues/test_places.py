"""Each place of each kind is checked by each operation that may change it."""

from typing import Any

import pytest

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.checks import UNQUEUED
from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    BARE,
    EMPTY,
    KUEUE,
    SCHEDULERS,
    labels,
    paths,
    required,
)


@rows
def test_each_place_by_operation(
    kind: str, value: dict[str, Any], path: str, access: Access
) -> None:
    created = required(kind, value)
    assert [(check.path, check.access) for check in created.checks] == [(path, access)]
    assert required(kind, value, BARE) == created
    assert required(kind, value, BARE, subresource="status") == created
    assert required(kind, value, value) == EMPTY
    assert required(kind, BARE, value) == EMPTY
    assert required(kind, None, value, operation="DELETE") == EMPTY
    assert required(kind, value, operation="CONNECT") == EMPTY
    for subresource in ("scale", "eviction", "ephemeralcontainers"):
        assert required(kind, value, BARE, subresource=subresource) == EMPTY


def test_the_parent_in_a_quota_profile_needs_admin_access() -> None:
    parent = "quota.scheduling.koordinator.sh/parent"
    spec = {"quotaLabels": {parent: "a"}}
    found = required("quota.koordinator.sh/ElasticQuotaProfile", {"spec": spec})
    assert [(each.path, each.access, each.where) for each in found.checks] == [
        ("root.koordinator.a", Access.ADMIN, f'spec.quotaLabels["{parent}"]')
    ]


@rows
def test_keys_that_only_an_operator_reads(kind: str, metadata: dict[str, Any], path: str) -> None:
    """The operator writes the scheduler's own key into the pods."""
    value = {"metadata": metadata}
    found = required(kind, value, unqueued="deny")
    assert paths(found) == [path]
    assert required(kind, value, value) == EMPTY
    # An object of this kind within another one, even where no operator is known to look.
    group, _, name = kind.rpartition("/")
    within = {"spec": {"any": [{"apiVersion": f"{group}/v1", "kind": name, **value}]}}
    for outer in ("workload.codeflare.dev/AppWrapper", "run.ai/WorkloadRunner", "x.io/Any"):
        assert paths(required(outer, within)) == [path]
    # In other kinds, the key means nothing.
    for other in ("Pod", "apps/Deployment", "workload.codeflare.dev/AppWrapper"):
        assert required(other, value) == EMPTY
    swapped = {"labels": metadata.get("annotations"), "annotations": metadata.get("labels")}
    assert required(kind, {"metadata": swapped}) == EMPTY


@pytest.mark.parametrize("name", [" dev", "dev ", "\tdev\n"])
def test_an_operator_that_trims_names_gets_none_unseen(name: str) -> None:
    value = {"metadata": {"annotations": {"nvidia.com/kai-scheduler-queue": name}}}
    found = required("nvidia.com/DynamoGraphDeployment", value)
    assert paths(found) == ["root.kai.dev"] if found.checks else found.obstacles


@rows
@pytest.mark.parametrize("places", [[], [{"kind": "grove.io/PodCliqueSet", "field": "spec.queue"}]])
def test_a_place_of_an_own_kind_hides_no_other(
    where: dict[str, Any], checked: list[str] | None, places: list[Any]
) -> None:
    """With a place that the object lacks, a name elsewhere is still a name."""
    schedulers = {**SCHEDULERS, "places": places}
    value = {"spec": {"template": where}}
    found = required("grove.io/PodCliqueSet", value, schedulers=schedulers, unqueued="deny")
    if checked is None:
        assert [each.scheduler for each in found.obstacles] == [UNQUEUED]
    else:
        assert paths(found) == checked


def test_labels_anywhere_in_an_own_kind_name_a_queue() -> None:
    """Nobody knows which of its members are metadata."""
    schedulers = {**SCHEDULERS, "places": [{"kind": "example.com/Run", "field": "spec.queue"}]}
    run = {"spec": {"parts": [{"labels": {KUEUE: "dev"}}]}}
    found = required("example.com/Run", run, schedulers=schedulers, unqueued="deny")
    assert paths(found) == ["root.namespaces.ml.dev"]
    claim = {"spec": {"volumeClaimTemplates": [labels(kueue="dev")]}}
    found = required("example.com/Run", claim, schedulers=schedulers, unqueued="deny")
    assert [each.scheduler for each in found.obstacles] == [UNQUEUED]
