"""The webhook with settings: it decides in its own process, with a policy that it follows."""

import asyncio
import json
import signal
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from queuegate_server.admin.readiness import Phase
from queuegate_server.server.webhook import PolicyBackend
from queuegate_server.settings.load import load_settings
from queuegate_server.settings.model import Settings
from tests.support.admission_reviews import admission_review
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.rows import rows, table
from tests.support.servers.queuegate_server import RunningServer, forking, run, start
from tests.support.servers.webhook import (
    Webhook,
    announced,
    listening,
    running_webhook,
    write_certificate,
)

POLICY: str = table(__file__, "POLICY")
DEV_FOR_BOB = POLICY.replace("alice", "bob,alice")
TWO_OF_ONE_NAME = POLICY + "            queues: [{name: dev}]\n"
AMBIGUOUS = 'queues.yaml:10:22: error: queue "root.prod.dev" has the same last level as "root.dev"'
SETTINGS: Mapping[str, Any] = {"mode": "deny", "schedulers": {"volcano": {}}}


def review(user: str, queue: str = "dev") -> dict[str, Any]:
    metadata = {"name": "train", "namespace": "team"}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    return admission_review(user, {**job, "spec": {"queue": queue}})


def write_settings(folder: Path, queues: Mapping[str, Any] | None = None, **others: Any) -> Path:
    """Write queuegate.yaml (JSON is YAML) and, unless it exists, the policy."""
    policy = folder / "queues.yaml"
    if not policy.exists():
        policy.write_text(POLICY)
    settings = {
        "policy": {"path": str(policy)},
        "admission": {"queues": {**SETTINGS, **(queues or {})}},
        **others,
    }
    file = folder / "queuegate.yaml"
    replace(file, json.dumps(settings))
    return file


@contextmanager
def webhook_of(folder: Path, *arguments: str, **settings: Any) -> Iterator[Webhook]:
    file = write_settings(folder, **settings)
    with running_webhook(folder, "--config", str(file), *arguments) as webhook:
        yield webhook


@contextmanager
def webhook_process(config: Path) -> Iterator[tuple[RunningServer, str]]:
    """Run a webhook whose address and certificate are in its settings; yield the address."""
    process = start("admission", "--config", str(config), "--set", "ops.listen=127.0.0.1:0")
    with announced(process) as (server, line):
        yield server, line.rpartition("https://")[2].strip()


def allowed(webhook: Webhook, user: str, queue: str = "dev") -> bool:
    answer: bool = webhook.review("/queues", review(user, queue))["allowed"]
    return answer


def wait_for_diagnostic(webhook: Webhook, text: str) -> None:
    """Wait until a diagnostic with this text is logged."""

    def is_logged() -> bool:
        return any(text in each.get("diagnostic", "") for each in webhook.server.logs)

    eventually(is_logged, True)


def test_the_policy_is_followed(tmp_path: Path) -> None:
    """A changed file is applied, and one that cannot be used leaves the last good one in use."""
    with webhook_of(tmp_path) as webhook:
        assert allowed(webhook, "alice")
        # Service accounts may be listed without a setting, because YuniKorn does not read the file.
        assert allowed(webhook, "system:serviceaccount:ci:runner")
        assert not allowed(webhook, "bob")
        assert not allowed(webhook, "alice", "unheard-of")
        policy = tmp_path / "queues.yaml"
        replace(policy, TWO_OF_ONE_NAME)
        wait_for_diagnostic(webhook, AMBIGUOUS)
        assert not allowed(webhook, "bob")
        assert webhook.metric("queuegate_policy_last_reload_successful") == 0
        assert webhook.plain.get("/readyz").status_code == 200
        replace(policy, DEV_FOR_BOB)
        eventually(lambda: allowed(webhook, "bob"), True)
        assert webhook.metric("queuegate_policy_last_reload_successful") == 1
        assert webhook.metric("queuegate_ready") == 1
        # Annotations are written as without settings.
        assert webhook.review("/mutate", review("alice"))["allowed"]
        assert webhook.server.stop() == 0


def test_the_mode_is_switched_without_a_restart(tmp_path: Path) -> None:
    """SIGHUP applies the emergency switch; a setting that needs a restart is named in the log."""
    with webhook_of(tmp_path) as webhook:
        assert not allowed(webhook, "bob")
        write_settings(tmp_path, {"mode": "off", "groups": "both"})
        webhook.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: allowed(webhook, "bob"), True)
        pending = webhook.server.wait_for_log("changed settings require a restart")
        assert pending["keys"] == ["admission.queues.groups"]
        write_settings(tmp_path, {"mode": "warn"})
        webhook.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "warnings" in webhook.review("/queues", review("bob")), True)
        assert allowed(webhook, "bob")
        write_settings(tmp_path, {"exempt": ["^bob$"]})
        webhook.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: allowed(webhook, "carol"), False)
        assert allowed(webhook, "bob")
        write_settings(tmp_path, {"mode": "strict"})
        webhook.server.process.send_signal(signal.SIGHUP)
        wait_for_diagnostic(webhook, "admission.queues.mode: must be 'off', 'warn' or 'deny'")
        assert not allowed(webhook, "carol")
        assert webhook.plain.get("/readyz").json()["settings"]["valid"] is False


@rows
def test_what_a_change_needs_is_logged(
    tmp_path: Path, admission: dict[str, Any], event: str, key: str
) -> None:
    with webhook_of(tmp_path) as webhook:
        queues = {**SETTINGS, **admission.pop("queues", {})}
        write_settings(tmp_path, admission={"queues": queues, **admission})
        webhook.server.process.send_signal(signal.SIGHUP)
        assert webhook.server.wait_for_log(event, seconds=20)["keys"] == [f"admission.{key}"]


def test_modes_of_schedulers_and_unqueued_change_without_a_restart(tmp_path: Path) -> None:
    with webhook_of(tmp_path) as webhook:
        assert not allowed(webhook, "bob")
        assert allowed(webhook, "bob", "")
        volcano = {"schedulers": {"volcano": {"mode": "warn"}}}
        write_settings(tmp_path, {**volcano, "unqueued": "root.Dev"})
        webhook.server.process.send_signal(signal.SIGHUP)
        wait_for_diagnostic(webhook, 'admission.queues.unqueued: "root.Dev" is not a queue path')
        assert not allowed(webhook, "bob")
        write_settings(tmp_path, {**volcano, "unqueued": "root.nosuch", "exempt": [".*"]})
        webhook.server.process.send_signal(signal.SIGHUP)
        wait_for_diagnostic(webhook, 'queues.unqueued: "root.nosuch" is not in the policy')
        wait_for_diagnostic(webhook, 'admission.queues.exempt[0]: the pattern ".*" matches every')
        write_settings(tmp_path, {**volcano, "unqueued": "root.dev"})
        webhook.server.process.send_signal(signal.SIGHUP)
        eventually(lambda: allowed(webhook, "bob", ""), False)
        assert allowed(webhook, "bob")
        assert allowed(webhook, "alice", "")


def test_options_about_logs_survive_a_reload(tmp_path: Path) -> None:
    with webhook_of(tmp_path, "--set", "log.level=warning", log={"level": "info"}) as webhook:
        write_settings(tmp_path, {"groups": "both"})
        webhook.server.process.send_signal(signal.SIGHUP)
        webhook.server.wait_for_log("changed settings require a restart")
        assert not allowed(webhook, "bob")
        assert {each["level"] for each in webhook.server.logs} == {"warning"}


@rows
def test_config_maps_are_read_as_the_policy_is(
    tmp_path: Path, names: str | None, options: tuple[str, ...], *, is_warned: bool
) -> None:
    """/validate-conf and `validate --config` agree about the names in ACLs."""
    text = POLICY.replace("submitacl: bob", 'submitacl: "oidc|bob"')
    (tmp_path / "queues.yaml").write_text(text)
    partitions = {} if names is None else {"default": {"acl_names": names}}
    with webhook_of(tmp_path, *options, partitions=partitions) as webhook:
        asked = review("root")
        asked["request"] |= {
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "name": "yunikorn-configs",
            "object": {"kind": "ConfigMap", "data": {"queues.yaml": text}},
        }
        warnings = webhook.review("/validate-conf", asked).get("warnings", [])
    assert bool(warnings) is is_warned
    assert all('"oidc|bob"' in each for each in warnings)
    if not options:
        checked = run("validate", "--config", str(tmp_path / "queuegate.yaml"))
        assert ('"oidc|bob"' in checked.stdout) is is_warned


def test_the_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # structlog imports rich if it is there; only the tests install it.
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/rich.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hidden"))
    # A forked process would share the memory of modules that the webhook does not import.
    with forking(forks=False), webhook_of(tmp_path) as webhook:
        for number in range(300):
            assert not allowed(webhook, f"user-{number}")
        assert webhook.server.memory() < 90 << 20
        modules = Path(f"/proc/{webhook.server.pid}/maps").read_text()
        assert "grpc" not in modules


def test_metrics_and_audit_records(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    with webhook_of(tmp_path, audit={"path": str(audit)}) as webhook:
        assert not allowed(webhook, "bob")
        labels = 'mode="deny",outcome="denied",scheduler="volcano"'
        assert webhook.metric("queuegate_admission_queue_decisions_total", labels) == 1
        labels = 'endpoint="queues",outcome="denied"'
        assert webhook.metric("queuegate_admission_reviews_total", labels) == 1
        assert webhook.metric("queuegate_policy_queues", 'partition="default"') == 3
        assert webhook.metric("queuegate_audit_writable") == 1
    record = json.loads(audit.read_text().splitlines()[0])
    assert (record["user"], record["queue"], record["object_name"]) == ("bob", "root.dev", "train")


def test_the_address_and_certificates_are_settings(tmp_path: Path) -> None:
    """Clients of the CA are verified; others get no answer, and are not warned about."""
    clients, files = trustme.CA(), tmp_path / "own"
    files.mkdir()
    ca = trustme.CA()
    write_certificate(ca, files)
    clients.cert_pem.write_to_path(str(files / "clients.pem"))
    tls = {
        "certificate_file": str(files / "tls.crt"),
        "key_file": str(files / "tls.key"),
        "client_ca_file": str(files / "clients.pem"),
        "client_names": ["dns:kube-apiserver.example"],
    }
    file = write_settings(
        tmp_path, admission={"queues": SETTINGS, "listen": "127.0.0.1:0", "tls": tls}
    )
    with webhook_process(file) as (server, address):
        context = ssl.create_default_context()
        ca.configure_trust(context)
        with pytest.raises(httpx2.HTTPError):
            httpx2.post(f"https://{address}/queues", json=review("bob"), verify=context)
        clients.issue_cert("kube-apiserver.example").configure_cert(context)
        answer = httpx2.post(f"https://{address}/queues", json=review("bob"), verify=context)
        response = answer.json()["response"]
        assert response["allowed"] is False
        # A verified client learns which queues the user may use.
        assert "Queues you may use: prod." in response["status"]["message"]
        assert not [each for each in server.logs if "anyone who can connect" in str(each)]


def test_strangers_are_warned_about(tmp_path: Path) -> None:
    with webhook_of(tmp_path) as webhook:
        warnings = [each.get("diagnostic", "") for each in webhook.server.logs]
        assert any("admission.tls: anyone who can connect" in warning for warning in warnings)
        message = webhook.review("/queues", review("bob"))["status"]["message"]
        assert "root.prod" not in message


def test_placement_rules_that_ignore_named_queues_are_warned_about(tmp_path: Path) -> None:
    rules = "    placementrules: [{name: user, create: true}, {name: provided}]\n"
    (tmp_path / "queues.yaml").write_text(
        POLICY.replace(",system:serviceaccount:ci:runner", "") + rules
    )
    with webhook_of(tmp_path, queues={"schedulers": {"yunikorn": {}}}) as webhook:
        wait_for_diagnostic(webhook, 'the first placement rule is "user"')
        wait_for_diagnostic(webhook, f"{tmp_path}/queues.yaml:10:")


@rows
def test_the_start_says_whether_queues_are_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, queues: dict[str, Any], said: str
) -> None:
    settings = load_settings(write_settings(tmp_path, queues), {})
    entries = logged_at_start(settings, caplog)
    [about] = [each for each in entries if "queues of objects" in each.message]
    assert f"{about.message} {about.mode}".endswith(said)


@rows
def test_the_start_warns_about_settings(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, Any],
    expected: str,
) -> None:
    """`validate` warns about the same, with lines."""
    config = write_settings(tmp_path, admission=settings)
    entries = logged_at_start(load_settings(config, {}), caplog)
    diagnostics = [getattr(each, "diagnostic", "") for each in entries]
    [found] = [each for each in diagnostics if each.startswith("settings: ")]
    assert found.startswith(f"settings: warning: admission.{expected}")
    checked = run("validate", "--config", str(config)).stdout.splitlines()
    [printed] = [each for each in checked if each.startswith(f"{config}:1:")]
    assert printed.endswith(found.removeprefix("settings: "))


def test_the_start_warns_about_a_missing_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queues = {**SETTINGS, "groups": "kubernetes"}
    settings = Settings.model_validate({"admission": {"queues": queues}})
    entries = logged_at_start(settings, caplog)
    [found] = [each.diagnostic for each in entries if hasattr(each, "diagnostic")]
    assert found.startswith("settings: warning: admission.queues: no policy is configured")


def logged_at_start(settings: Settings, caplog: pytest.LogCaptureFixture) -> list[Any]:
    """Return the log entries of a webhook that verifies its clients and loads its policy."""

    async def load() -> None:
        backend = PolicyBackend(settings, lambda: settings)
        assert await backend.load(asyncio.Event())
        await backend.close()

    caplog.set_level("INFO")
    asyncio.run(load())
    return caplog.records


@rows
def test_wrong_starts(tmp_path: Path, policy: str, settings: dict[str, Any], expected: str) -> None:
    """The process ends with status 2, and `validate` reports the same before the start."""
    (tmp_path / "queues.yaml").write_text(policy)
    write_certificate(trustme.CA(), tmp_path)
    config = str(write_settings(tmp_path, settings))
    done = run("admission", "--config", config, *listening(tmp_path))
    assert done.returncode == 2
    assert expected in done.stderr
    checked = run("validate", "--config", config)
    assert checked.returncode == 1
    assert expected.removeprefix("the policy cannot be served\n") in checked.stdout


def test_a_certificate_must_be_named(tmp_path: Path) -> None:
    done = run("admission", "--config", str(write_settings(tmp_path)))
    assert done.returncode == 2
    assert "set admission.tls.certificate_file and admission.tls.key_file" in done.stderr


def test_nothing_is_ready_before_the_policy_is_loaded(tmp_path: Path) -> None:
    settings = load_settings(write_settings(tmp_path), {})

    async def phases() -> list[tuple[bool, bool]]:
        backend = PolicyBackend(settings, lambda: settings)
        found = [(backend.startup()["started"], backend.readiness()["ready"])]
        assert await backend.load(asyncio.Event())
        for phase in (Phase.STARTING, Phase.SERVING, Phase.DRAINING):
            backend.set_phase(phase)
            found.append((backend.startup()["started"], backend.readiness()["ready"]))
        await backend.close()
        return found

    assert asyncio.run(phases()) == [(False, False), (True, False), (True, True), (True, False)]
