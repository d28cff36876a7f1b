"""The manifests: valid, in agreement with each other, and startable as they are."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from queuegate_server.admission.annotations.reviews import AnnotationReviews
from queuegate_server.formats.registry import DEFAULT_OPTIONS
from tests.support.manifests import (
    POLICY,
    VERSIONS,
    Manifest,
    certificate_containers,
    check_hardening,
    check_names,
    check_schemas,
    check_selectors,
    loaded,
    of_kind,
    own_containers,
    started,
)

DEPLOY = Path("deploy")
KUSTOMIZE = "kustomize.config.k8s.io"
EXISTING = {"yunikorn-defaults": {}, "yunikorn-configs": {"queues.yaml": POLICY}}


def documents() -> list[tuple[Path, Manifest]]:
    return [
        (file, each)
        for file in sorted(DEPLOY.rglob("*.yaml"))
        # Those of deploy/queues have the names of others: test_kustomize.py renders them.
        if not {"helm", "compose"} & {*file.parts} and file.parts[1] != "queues"
        for each in loaded(file.read_text(encoding="utf-8"))
    ]


DOCUMENTS = documents()
MANIFESTS = [each for _, each in DOCUMENTS]
PATCHES = (DEPLOY / "sidecar/scheduler.yaml", DEPLOY / "valkey/server.yaml")
WHOLE = [
    each for file, each in DOCUMENTS if file not in PATCHES and KUSTOMIZE not in each["apiVersion"]
]
CONTAINERS = [
    pytest.param(pod, container, id=f"{container['name']}-{number}")
    for number, (pod, container) in enumerate(own_containers(MANIFESTS))
]


@pytest.mark.parametrize("version", VERSIONS)
def test_against_the_schemas_of_kubernetes(version: str) -> None:
    assert check_schemas(WHOLE, version) >= 14


def test_the_check_finds_a_misspelt_key() -> None:
    broken = yaml.safe_load((DEPLOY / "fleet/deployment.yaml").read_text(encoding="utf-8"))
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_every_file_is_used() -> None:
    for file, document in DOCUMENTS:
        if KUSTOMIZE not in document["apiVersion"]:
            continue
        patches = {patch["path"] for patch in document.get("patches", ())}
        used = set(document.get("resources", ())) | patches
        assert all((file.parent / name).exists() for name in used)
        there = {each.name for each in file.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert there == {name for name in used if name.endswith(".yaml")}


def test_only_the_monitors_need_the_prometheus_operator() -> None:
    needed = {file for file, each in DOCUMENTS if each["apiVersion"] == "monitoring.coreos.com/v1"}
    assert needed == {DEPLOY / "monitoring/monitors.yaml"}


def test_all_servers_are_here() -> None:
    names = [container["name"] for _, container in own_containers(MANIFESTS)]
    assert sorted(names) == ["queuegate", "queuegate", "queuegate-admission"]


@pytest.mark.parametrize(("pod", "container"), [*CONTAINERS, *certificate_containers(MANIFESTS)])
def test_hardening(pod: Manifest, container: Manifest) -> None:
    check_hardening(pod, container)


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_names_agree(pod: Manifest, container: Manifest) -> None:
    check_names(MANIFESTS, pod, container)


def test_services_select_pods() -> None:
    check_selectors(WHOLE)


def test_webhooks_ask_what_is_served() -> None:
    never: Any = None
    reviews = AnnotationReviews(
        settings=never,
        namespaces=None,
        policy_options=DEFAULT_OPTIONS,
        has_yunikorn_duties=False,
        groups=None,
        parsing=never,
    )
    paths = {endpoint.path for endpoint in reviews.endpoints()}
    services = {service["metadata"]["name"]: service for service in of_kind(MANIFESTS, "Service")}
    seen = set()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for document in of_kind(MANIFESTS, kind):
            for webhook in document["webhooks"]:
                asked = webhook["clientConfig"]["service"]
                ports = {port["port"] for port in services[asked["name"]]["spec"]["ports"]}
                assert asked["port"] in ports
                seen.add(asked["path"])
                # An example of queue checks warns only.
                ignored = asked["path"] in {"/validate-conf", "/queues"}
                assert webhook["failurePolicy"] == ("Ignore" if ignored else "Fail")
                assert webhook["sideEffects"] == "None"
    assert seen == {*paths, "/queues"}


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_server_starts_with_these_arguments(
    pod: Manifest, container: Manifest, tmp_path: Path
) -> None:
    with started(MANIFESTS, pod, container, tmp_path, EXISTING):
        pass
