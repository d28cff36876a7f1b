"""The Helm chart: linted, rendered in several shapes, the same as the manifests, startable."""

import json
import os
import re
import shutil
import subprocess
import sys
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
    VERSIONS,
    Manifest,
    check_hardening,
    check_names,
    check_schemas,
    check_selectors,
    kustomized,
    loaded,
    of_kind,
    own_containers,
    settings_of,
    started,
)

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
CHART = Path("deploy/helm/queuegate")
PAGE = Path("docs/how-to/helm.md").read_text(encoding="utf-8")
SAMPLES: list[str] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""
CALLERS = {
    "dns:yunikorn-scheduler.yunikorn.svc": {"roles": ["check", "read"], "assert_groups": True},
    "cn:on-call": {"roles": ["check", "read", "admin"]},
}
TLS = "{certificate_file: /run/secrets/queuegate/tls.crt, key_file: /run/secrets/queuegate/tls.key}"
SECRET = {"path": "/x", "secret": "a"}
CERT_MANAGER = {"enabled": True, "certificate": {"certManager": True}}
EVERYTHING = {
    "image": {"repository": "queuegate", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "server": {
        "replicas": 1,
        "batchScheduling": True,
        "mounts": [{"configMap": "more", "path": "/etc/more"}],
        "networkPolicy": {"egress": [{"ports": [{"protocol": "TCP", "port": 636}]}]},
        "pod": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
        },
    },
    "valkey": {"enabled": True},
    "webhook": {
        "enabled": True,
        "certificate": {"secret": "own", "caBundle": "AAAA"},
        "settingsConfigMap": "queuegate-admission-settings",
        "excludedNamespaces": ["kube-system", "storage"],
        "args": [
            "--client-ca-file=/etc/queuegate/api-server/ca.crt",
            "--client-name=cn:api-server",
        ],
        "mounts": [{"secret": "api-server", "path": "/etc/queuegate/api-server"}],
        "networkPolicy": {"from": [{"ipBlock": {"cidr": "192.0.2.1/32"}}]},
    },
    "prometheus": {"serviceMonitors": True, "rules": True, "labels": {"release": "prometheus"}},
}
SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "webhook alone": {"server": {"enabled": False}, "webhook": CERT_MANAGER},
    "everything": EVERYTHING,
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
    """The command `helm`, as release `queuegate` in the namespace `yunikorn`."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def run(
        self, *arguments: str, values: dict[str, Any] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        return subprocess.run(
            [str(self._program), *arguments, "--values", str(file), "--namespace", "yunikorn"],
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
    chart: Helm, kustomize: Path, tmp_path: Path, folder: str
) -> None:
    deploy = tmp_path / "deploy"
    made = "made-by-make-webhook-certificate"
    shutil.copytree("deploy", deploy, ignore=shutil.ignore_patterns(made, "helm"))
    script = deploy / "admission/own-ca/make_certificate.py"
    subprocess.run([sys.executable, str(script)], check=True)
    own = yaml.safe_load((deploy / "admission/own-ca" / made / "helm-values.yaml").read_text())
    values: dict[str, dict[str, Any]] = {
        "fleet": {"server": {"settings": {"callers": {"certificates": CALLERS}}}},
        "admission/cert-manager": {"server": {"enabled": False}, "webhook": CERT_MANAGER},
        "admission/own-ca": {
            "server": {"enabled": False},
            "webhook": {"enabled": True, **own["webhook"]},
        },
    }
    from_chart = comparable(chart.template(values[folder]))
    from_manifests = comparable(kustomized(kustomize, deploy / folder))
    assert from_chart.keys() == from_manifests.keys()
    for name, manifest in from_manifests.items():
        assert from_chart[name] == manifest, name


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str], Any]:
    """Leave out what only Helm adds; take settings as what they mean."""
    found = {}
    for each in manifests:
        if each["kind"] == "Secret":
            continue
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


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sever": {}}, "sever"),
        ({"server": {"replicas": 0}}, "replicas"),
        ({"server": {"networkPolicy": {"from": []}}}, "from"),
        ({"server": {"mounts": [{"path": "/x"}]}}, "mounts"),
        ({"server": {"mounts": [{"path": "/x", "secret": "a", "configMap": "b"}]}}, "mounts"),
        ({"server": {"mounts": [{**SECRET, "token": "audience"}]}}, "mounts"),
        ({"server": {"serviceAccount": "a b"}}, "serviceAccount"),
        ({"server": {"pod": {"hostNetwork": True}}}, "hostNetwork"),
        ({"image": {"digest": "sha256:1"}}, "digest"),
        ({"prometheus": {"runbookUrl": "docs/runbook"}}, "runbookUrl"),
        ({"prometheus": {"runbookUrl": "https://a/\nb: c"}}, "runbookUrl"),
        ({"webhook": {"enabled": True}}, "make webhook-certificate"),
        ({"valkey": {"maxMemory": "192Mi"}}, "maxMemory"),
        ({"valkey": {"enabled": True}, "server": {"enabled": False}}, "also set server.enabled"),
        (
            {
                "valkey": {"enabled": True},
                "server": {"settings": {"fleet": {"url": "redis://a", "secret_file": "/x"}}},
            },
            "server.settings.fleet.url: valkey.enabled sets it",
        ),
        (
            {
                "valkey": {"enabled": True},
                "server": {"mounts": [{**SECRET, "path": "/run/secrets/fleet"}]},
            },
            "server.mounts: /run/secrets/fleet: the pod has the folder /run/secrets/fleet",
        ),
        ({"server": {"mounts": [SECRET, SECRET]}}, "server.mounts: /x: the pod has the folder /x"),
        (
            {"server": {"mounts": [{**SECRET, "path": "/etc/yunikorn"}]}},
            "server.mounts: /etc/yunikorn: the pod has the folder /etc/yunikorn/defaults",
        ),
        (
            {"webhook": {**CERT_MANAGER, "args": ["--listen=0.0.0.0:443"]}},
            "webhook.args: --listen=0.0.0.0:443: the chart sets this option",
        ),
        (
            {"webhook": {**CERT_MANAGER, "mounts": [{**SECRET, "path": "/etc/queuegate/tls/"}]}},
            "webhook.mounts: /etc/queuegate/tls: the pod has the folder /etc/queuegate/tls",
        ),
    ],
)
def test_wrong_values_are_refused(chart: Helm, values: dict[str, Any], said: str) -> None:
    done = chart.run("template", "queuegate", str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("transprot: grpcio", "transprot"),
        ("transport: uds", "settings/transport"),
        ("drain: {grace: 20 s}", "settings/drain/grace"),
        ("limits: {max_message: 4 MB}", "settings/limits/max_message"),
        ("resolvers: {corp: {type: ldap, user_base: ou=p, url: x}}", "'url'"),
        ("resolvers: {corp: {lookup_timeout: 1s}}", "'type'"),
        ("listen: [127.0.0.1:50051]", "settings/listen/0"),
        ("listen: null", "settings.listen: has no address that other pods can reach"),
        (
            "listen: [{address: '127.0.0.1:50051'}]",
            "settings.listen: has no address that other pods can reach",
        ),
        ("listen: [{address: '0.0.0.0:50052', insecure: true}]", "0.0.0.0:50052: the Service"),
        ("listen: [{address: '10.0.0.1:50051', insecure: true}]", "10.0.0.1:50051: the Service"),
        ("listen: [{address: '0.0.0.0:50051'}]", "0.0.0.0:50051: set tls"),
        ("listen: [{address: 'unix:/run/q.sock'}]", "unix:/run/q.sock: no folder in the pod"),
        ("ops: {listen: '0.0.0.0:9090'}", "settings.ops.listen: must be 0.0.0.0:9464"),
        ("ops: null", "settings.ops.listen: must be 0.0.0.0:9464"),
        ("console: {enabled: true}", "settings.console.enabled: also set server.settings.ops.tls"),
        (f"{{console: {{enabled: true}}, workers: 2, ops: {{tls: {TLS}}}}}", "requires workers: 1"),
        ("transport: native", "settings.transport: native serves on loopback only"),
        ("audit: {path: /var/log/audit.log}", "settings.audit.path: no folder in the pod"),
        ("policy: {path: /etc/hadoop/conf/fair-scheduler.xml}", "add `configs: null`"),
        ("policies: [{path: /etc/hadoop/conf/fair-scheduler.xml}]", "add `policy: null`"),
        ("callers: {tokens: {dashboard: {roles: [check]}}}", "set server.settings.callers.token_f"),
    ],
)
def test_settings_that_the_server_would_refuse(chart: Helm, settings: str, said: str) -> None:
    """Or that the chart's own objects would not fit."""
    values = {"server": {"settings": yaml.safe_load(settings)}}
    done = chart.run("template", "queuegate", str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize(
    ("drain", "seconds"),
    [
        ({}, 40),
        ({"delay": "1m30s", "grace": "500ms"}, 101),
        ({"delay": 0, "grace": 45.5}, 56),
        ({"delay": None, "grace": None}, 30),
        (None, 30),
    ],
)
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
    for file in re.findall(r"deploy/[\w/.-]+", notes):
        assert Path(file).parent.parent.exists()
    secrets = [line.strip() for line in notes.splitlines() if "openssl rand" in line]
    assert bool(secrets) == (shape == "everything")
    assert all(line.startswith("umask 077; ") for line in secrets)


def test_rendered_settings_can_be_validated(chart: Helm, tmp_path: Path) -> None:
    """As on the page about the chart: only files of the cluster are missing."""
    values = yaml.safe_load(SAMPLES[0])
    rendered = tmp_path / "rendered.yaml"
    done = chart.run("template", "queuegate", str(CHART), values=values)
    rendered.write_text(done.stdout, encoding="utf-8")
    checked = CliRunner().invoke(validate, ["--settings", str(rendered)])
    assert checked.exit_code == 0, checked.stdout
    findings = checked.stdout.splitlines()
    assert findings
    assert all(f"{rendered}:" in each and "does not exist" in each for each in findings)


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
    for shape in SHAPES.values():
        assert not of_kind(chart.template(shape), "Secret")
