"""The Helm chart: linted, rendered in several shapes, the same as the manifests, startable."""

import copy
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trustme
import yaml
from click.testing import CliRunner

from queuegate_server.cli.policy_files import validate
from queuegate_server.settings.load import load_settings
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    POLICY,
    VERSIONS,
    Manifest,
    check_hardening,
    check_names,
    check_schemas,
    check_selectors,
    follows_cluster,
    kustomized,
    loaded,
    of_kind,
    own_containers,
    settings_of,
    started,
)
from tests.support.rows import rows, table

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
CHART = Path("deploy/helm/queuegate")
PAGE = Path("docs/how-to/helm.md").read_text(encoding="utf-8")
SAMPLES: list[str] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CALLERS = {
    "dns:yunikorn-scheduler.yunikorn.svc": {"roles": ["check", "read"], "assert_groups": True},
    "cn:on-call": {"roles": ["check", "read", "admin"]},
}
TLS = "{certificate_file: /run/secrets/queuegate/tls.crt, key_file: /run/secrets/queuegate/tls.key}"
CERT_MANAGER = {"enabled": True, "certificate": {"certManager": True}}
EVERYTHING = table(__file__, "EVERYTHING")
QUEUE_CHECKS: dict[str, Any] = next(
    each
    for each in map(yaml.safe_load, SAMPLES)
    if "kubernetes" in each.get("webhook", {}).get("settings", {}).get("policy", {})
)
"""The values for Kueue on the page."""


def with_policy_file(values: dict[str, Any]) -> dict[str, Any]:
    """Return values in which a file replaces RBAC, as the page says."""
    values = copy.deepcopy(values)
    values["webhook"]["settings"]["policy"] = {"path": "queues.yaml"}
    values["webhook"]["policy"] = POLICY
    return values


SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "webhook alone": {"server": {"enabled": False}, "webhook": CERT_MANAGER},
    "everything": EVERYTHING,
    "policy file": with_policy_file(QUEUE_CHECKS),
    **{f"sample {number}": yaml.safe_load(text) for number, text in enumerate(SAMPLES)},
}
FILES = {
    "yunikorn-defaults": {},
    "yunikorn-configs": {"queues.yaml": POLICY},
    "queuegate-admission-settings": {"admissionController.accessControl.externalUsers": "^portal$"},
    "queuegate-ldap": {"password": "secret"},
    "directory-ca": {"ca.crt": trustme.CA().cert_pem.bytes().decode()},
    "queuegate-tokens": {"tokens": ""},
    "hadoop-conf": {"fair-scheduler.xml": "<allocations><queue name='root'/></allocations>"},
    "more": {},
    "queuegate-fleet": {"secret": "5" * 64, "password": "password"},
}


class Helm:
    """The command `helm`, for a namespace."""

    def __init__(self, program: Path, folder: Path, namespace: str = "yunikorn") -> None:
        self._program = program
        self._folder = folder
        self._namespace = namespace

    def run(
        self, *arguments: str, values: dict[str, Any] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        return subprocess.run(
            [str(self._program), *arguments, "--values", str(file), "--namespace", self._namespace],
            env={**os.environ, "HOME": str(self._folder), "KUBECONFIG": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )

    def template(self, values: dict[str, Any], release: str = "queuegate") -> list[Manifest]:
        kube = ("--kube-version", VERSIONS[-1])
        done = self.run("template", release, str(CHART), *kube, values=values)
        assert done.returncode == 0, done.stderr
        return loaded(done.stdout)


@pytest.fixture
def chart(helm: Path, tmp_path: Path) -> Helm:
    folder = tmp_path / "helm"
    folder.mkdir()
    return Helm(helm, folder)


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(chart: Helm, shape: str, tmp_path: Path) -> None:
    """Linted, valid, consistent, and every container starts with its very arguments."""
    linted = chart.run("lint", str(CHART), "--strict", values=SHAPES[shape])
    assert linted.returncode == 0, linted.stdout + linted.stderr
    manifests = chart.template(SHAPES[shape])
    for version in VERSIONS:
        assert check_schemas(manifests, version) >= 5
    check_selectors(manifests)
    containers = own_containers(manifests)
    assert containers
    for pod, container in containers:
        check_hardening(pod, container)
        check_names(manifests, pod, container)
        if follows_cluster(manifests, pod):
            continue  # it needs an API server, which tests/e2e/kube has
        folder = tmp_path / container["name"]
        folder.mkdir()
        with started(manifests, pod, container, folder, FILES) as server:
            batch = "command" in container
            assert (os.sched_getscheduler(server.pid) == os.SCHED_BATCH) == batch


def test_everything_is_said(chart: Helm) -> None:
    """Values that `started` does not need also reach the manifests."""
    manifests = chart.template(EVERYTHING, release="scheduling")
    kinds = [each["kind"] for each in manifests]
    assert (kinds.count("ServiceMonitor"), kinds.count("PrometheusRule")) == (2, 1)
    (rules,) = of_kind(manifests, "PrometheusRule")
    written = Path("deploy/helm/queuegate/alerts.yml").read_text(encoding="utf-8")
    assert rules["spec"] == yaml.safe_load(written)
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    names = {each["metadata"]["name"] for each in of_kind(manifests, "Deployment")}
    assert names == {"scheduling-queuegate", "scheduling-queuegate-admission"}
    for pod, container in own_containers(manifests):
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert container["image"].endswith(f"@sha256:{'0' * 64}")
    server, webhook = (pod for pod, _ in own_containers(manifests))
    assert server["nodeSelector"] == {"disk": "ssd"}
    assert webhook["priorityClassName"] == "system-cluster-critical"
    (mutating,) = of_kind(manifests, "MutatingWebhookConfiguration")
    (selector,) = mutating["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert selector["values"] == ["kube-system", "storage", "yunikorn"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_alerts_link_to_a_mirror(chart: Helm, slash: str) -> None:
    mirror = "https://git.example.com/mirrors/queue$1gate/docs/runbook"
    values = {"prometheus": {"rules": True, "runbookUrl": f"{mirror}{slash}"}}
    (rules,) = of_kind(chart.template(values), "PrometheusRule")
    written = yaml.safe_load((CHART / "alerts.yml").read_text(encoding="utf-8"))
    expected = [
        f"{mirror}/{Path(rule['annotations'].pop('runbook_url')).name}"
        for group in written["groups"]
        for rule in group["rules"]
    ]
    urls = [
        rule["annotations"].pop("runbook_url")
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
    ]
    assert len(urls) > 20
    assert urls == expected
    assert rules["spec"] == written


@pytest.mark.parametrize("folder", ["fleet", "admission/cert-manager", "admission/own-ca"])
def test_the_chart_and_the_manifests_make_the_same(
    chart: Helm, kustomize: Path, folder: str
) -> None:
    values: dict[str, dict[str, Any]] = {
        "fleet": {"server": {"settings": {"callers": {"certificates": CALLERS}}}},
        "admission/cert-manager": {"server": {"enabled": False}, "webhook": CERT_MANAGER},
        "admission/own-ca": {"server": {"enabled": False}, "webhook": {"enabled": True}},
    }
    from_chart = comparable(chart.template(values[folder]))
    from_manifests = comparable(kustomized(kustomize, Path("deploy") / folder))
    assert from_chart.keys() == from_manifests.keys()
    for name, manifest in from_manifests.items():
        assert from_chart[name] == manifest, name


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str], Any]:
    """Leave out what only Helm adds; take settings as what they mean."""
    found = {}
    for each in manifests:
        metadata = each["metadata"]
        metadata.pop("namespace", None)
        if each["kind"] not in {"Deployment", "Service"}:
            metadata.pop("labels", None)
        for name, text in each.get("data", {}).items():
            each["data"][name] = yaml.safe_load(text)
        found[each["kind"], metadata["name"]] = without_helm(each)
    return found


def without_helm(value: Any) -> Any:
    if isinstance(value, list):
        return [without_helm(each) for each in value]
    if not isinstance(value, dict):
        return value
    added = {
        *("app.kubernetes.io/instance", "app.kubernetes.io/version"),
        *("app.kubernetes.io/managed-by", "helm.sh/chart"),
        *("checksum/settings", "imagePullPolicy"),
    }
    kept = {key: without_helm(each) for key, each in value.items() if key not in added}
    if "annotations" in kept and not kept["annotations"]:
        del kept["annotations"]
    return kept


@rows
def test_wrong_values_are_refused(chart: Helm, values: dict[str, Any], said: str) -> None:
    done = chart.run("template", "queuegate", str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


@rows
def test_settings_that_the_server_would_refuse(chart: Helm, settings: str, said: str) -> None:
    """Or that the chart's own objects would not fit."""
    values = {"server": {"settings": yaml.safe_load(settings)}}
    done = chart.run("template", "queuegate", str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


@rows
def test_a_pod_has_the_time_to_drain(chart: Helm, drain: object, seconds: int) -> None:
    manifests = chart.template({"server": {"settings": {"drain": drain}}})
    ((pod, _),) = own_containers(manifests)
    assert pod["terminationGracePeriodSeconds"] == seconds


def test_the_console_is_served_with_tls(chart: Helm) -> None:
    settings = {
        "ops": {"tls": {**yaml.safe_load(TLS), "client_ca_file": "/run/secrets/queuegate/ca.crt"}},
        "console": {"enabled": True},
        "callers": {"certificates": CALLERS},
    }
    values = {"server": {"settings": settings}, "prometheus": {"serviceMonitors": True}}
    manifests = chart.template(values)
    for version in VERSIONS:
        check_schemas(manifests, version)
    ((pod, container),) = own_containers(manifests)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["scheme"] == "https"
    (text,) = settings_of(manifests, pod).values()
    read = load_settings(content=text.encode(), file=Path("queuegate.yaml"))
    assert read.console.enabled
    assert read.ops.tls


def test_numbers_reach_the_server_as_they_are_written(chart: Helm) -> None:
    limits = {"max_concurrent_calls": 1_000_000, "max_message": 1_073_741_824, "caller_rate": 0.5}
    manifests = chart.template({"server": {"settings": {"limits": limits}}})
    ((pod, _),) = own_containers(manifests)
    (text,) = settings_of(manifests, pod).values()
    loaded_limits = load_settings(content=text.encode(), file=Path("queuegate.yaml")).limits
    assert loaded_limits.max_concurrent_calls == 1_000_000
    assert loaded_limits.max_message == 1_073_741_824
    assert loaded_limits.caller_rate == 0.5


def test_the_schema_takes_every_setting() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    settings = yaml.safe_load(Path("examples/queuegate.yaml").read_text(encoding="utf-8"))
    settings["listen"] = [{"address": address} for address in settings["listen"]]
    settings["resolvers"]["teams"] = {"type": "of-another-distribution", "any": "option"}
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate({"server": {"settings": settings}})


@pytest.mark.parametrize("shape", ["default", "webhook alone", "everything"])
def test_notes_name_what_is_installed(chart: Helm, shape: str) -> None:
    arguments = ("install", "queuegate", str(CHART), "--dry-run=client")
    done = chart.run(*arguments, values=SHAPES[shape])
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    assert max(map(len, notes.splitlines())) <= 120
    named = re.findall(r"(?<!-)(deployment|certificate)/([\w.-]+)", notes)
    made = {
        (each["kind"].lower(), each["metadata"]["name"]) for each in chart.template(SHAPES[shape])
    }
    assert named
    assert set(named) <= made
    assert ("No caller has access yet" in notes) == (shape != "webhook alone")
    secrets = [line.strip() for line in notes.splitlines() if "openssl rand" in line]
    assert bool(secrets) == (shape == "everything")
    assert all(line.startswith("umask 077; ") for line in secrets)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_rendered_settings_can_be_validated(chart: Helm, tmp_path: Path, number: int) -> None:
    """As on the page about the chart: only files of the cluster are missing."""
    values = yaml.safe_load(SAMPLES[number])
    rendered = tmp_path / "rendered.yaml"
    done = chart.run("template", "queuegate", str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    rendered.write_text(done.stdout, encoding="utf-8")
    checked = CliRunner().invoke(validate, ["--settings", str(rendered)])
    assert checked.exit_code == 0, checked.stdout + checked.stderr
    for finding in checked.stdout.splitlines():
        assert f"{rendered}:" in finding
        assert "does not exist" in finding


@rows
def test_notes_describe_the_release_at_hand(
    chart: Helm, admission: dict[str, Any], said: list[str], unsaid: list[str]
) -> None:
    """What stops until the webhook is ready, and the command for an emergency."""
    values = copy.deepcopy(QUEUE_CHECKS)
    settings = values["webhook"]["settings"]["admission"]
    settings["queues"] |= admission.pop("queues", {})
    settings |= admission
    arguments = ("install", "checks", str(CHART), "--dry-run=client")
    done = chart.run(*arguments, values=values)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    for each in said:
        assert each in notes
    for each in unsaid:
        assert each not in notes


def test_notes_name_what_the_mounts_need(chart: Helm) -> None:
    values = {
        "server": {
            "mounts": [
                {"secret": "queuegate-ldap", "path": "/run/secrets/ldap"},
                {"configMap": "directory-ca", "path": "/etc/directory"},
                {"token": "api://AzureADTokenExchange", "path": "/run/secrets/entra"},
            ]
        },
        "webhook": {**CERT_MANAGER, "mounts": [{"secret": "more", "path": "/run/more"}]},
    }
    done = chart.run("install", "queuegate", str(CHART), "--dry-run=client", values=values)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    assert "The server waits for the Secret queuegate-ldap, mounted at /run/secrets/ldap." in notes
    assert "The server waits for the ConfigMap directory-ca, mounted at /etc/directory." in notes
    assert "The webhook waits for the Secret more, mounted at /run/more." in notes
    assert "/run/secrets/entra" not in notes


def test_a_token_of_the_service_account(chart: Helm) -> None:
    audience = "api://AzureADTokenExchange"
    values = {
        "server": {
            "serviceAccount": "queuegate",
            "mounts": [{"token": audience, "path": "/run/secrets/entra"}],
        }
    }
    rendered = chart.template(values)
    check_schemas(rendered, VERSIONS[0])
    [(pod, container)] = own_containers(rendered)
    assert pod["serviceAccountName"] == "queuegate"
    assert pod["automountServiceAccountToken"] is False, "for the Kubernetes API"
    source = {"serviceAccountToken": {"audience": audience, "path": "token"}}
    assert {"name": "mount-0", "projected": {"sources": [source]}} in pod["volumes"]
    mount = {"name": "mount-0", "mountPath": "/run/secrets/entra", "readOnly": True}
    assert mount in container["volumeMounts"]


def test_no_value_is_a_secret(chart: Helm) -> None:
    """A pod fills the only Secret."""
    for shape in SHAPES.values():
        for secret in of_kind(chart.template(shape), "Secret"):
            assert secret["metadata"]["name"] == "queuegate-admission-tls"
            assert not {"data", "stringData"} & secret.keys()
