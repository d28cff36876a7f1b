"""The process: settings and certificate renewed under load, signals, wrong starts."""

import base64
import gzip
import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tests.integration.admission.test_bounds import raw_connection, review
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.rows import rows
from tests.support.servers.queuegate_server import run, server_command
from tests.support.servers.webhook import (
    Webhook,
    listening,
    patch_of,
    running_webhook,
    write_certificate,
)

EXTERNAL = "admissionController.accessControl.externalUsers"
SET = {"metadata": {"annotations": {"yunikorn.apache.org/user.info": '{"user":"eve"}'}}}


def test_settings_follow_the_config_maps(tmp_path: Path) -> None:
    environment = {"ADMISSION_CONTROLLER_EXTERNAL_USERS": "^bob$"}
    with running_webhook(tmp_path, environment=environment) as webhook:

        def allowed() -> bool:
            answer: bool = webhook.review("/mutate", review(object=SET))["allowed"]
            return answer

        assert allowed()
        webhook.configure({EXTERNAL: "^eve$"})
        assert not allowed()
        webhook.configure({EXTERNAL: "^bob$"})
        assert allowed()
        webhook.configure({EXTERNAL: "^(?!bob)", "other": "x"})
        assert allowed()
        log = webhook.server.wait_for_log("cannot use the changed file")
        fault = f"{EXTERNAL}: the pattern '^(?!bob)' is not valid: invalid perl operator: (?!"
        assert log["error"] == fault
        before = webhook.reloads()
        webhook.configs.write({})
        webhook.defaults.write({EXTERNAL: "^eve$"})
        eventually(lambda: webhook.reloads() > before and not allowed(), True)


def test_certificate_is_renewed_under_load(webhook: Webhook) -> None:
    """New connections get the new certificate, no request fails, a bad pair changes nothing."""
    stop = threading.Event()
    answered: list[int] = []
    failures: list[BaseException] = []

    def ask() -> None:
        # A connection of its own for every request: each makes a handshake.
        context = webhook.client_context()
        try:
            while not stop.wait(0.01):
                with httpx2.Client(verify=context, timeout=60) as client:
                    answer = client.post(f"https://{webhook.address}/mutate", json=review())
                answered.append(answer.status_code)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        serial = webhook.renew()
        eventually(webhook.served_serial, serial)
    replace(webhook.files / "tls.key", "no key")
    webhook.server.wait_for_log("cannot use the changed file")
    assert webhook.served_serial() == serial
    renewed = write_certificate(webhook.ca, webhook.files)
    eventually(webhook.served_serial, renewed)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(answered) == {200}
    expires = webhook.plain.get("/metrics").text
    assert "queuegate_admission_certificate_expires_timestamp_seconds" in expires


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    """Nobody is asked for it: a server that waits at a prompt serves nobody."""
    write_certificate(trustme.CA(), tmp_path)
    key = serialization.load_pem_private_key((tmp_path / "tls.key").read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "tls.key").write_bytes(encrypted)
    command = server_command("admission", *listening(tmp_path))
    pipe = subprocess.PIPE
    # A session without a terminal, where the prompt would read from stdin, which stays open.
    with subprocess.Popen(
        command, stdin=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            assert process.wait(60) == 2
        finally:
            process.kill()
        assert process.stderr is not None
        assert "without a passphrase" in process.stderr.read()


def test_reviews_are_answered_after_sigterm(tmp_path: Path) -> None:
    with running_webhook(tmp_path, "--set", "drain.delay=3s") as webhook:
        alive = webhook.plain.get("/livez")
        assert alive.status_code == 200
        # Told that the connection ends, a client does not send another request on it.
        assert alive.headers["connection"] == "close"
        assert webhook.plain.get("/readyz").status_code == 200
        webhook.server.process.terminate()
        eventually(lambda: webhook.plain.get("/readyz").status_code, 503)
        # Not yet taken out of the load balancer: still answered.
        assert webhook.review("/mutate", review())["allowed"]
        assert webhook.server.process.wait(60) == 0


def test_a_review_that_has_begun_is_answered_after_sigterm(tmp_path: Path) -> None:
    body = json.dumps(review()).encode()
    with running_webhook(tmp_path) as webhook, raw_connection(webhook) as connection:
        connection.sendall(
            b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body[:10])
        )
        eventually(lambda: webhook.metric("queuegate_admission_reviews_in_flight") == 1, True)
        webhook.server.process.terminate()
        webhook.server.wait_for_log("draining")
        connection.sendall(body[10:])
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nConnection: close\r\n" in answer
        assert webhook.server.process.wait(60) == 0


@rows
def test_wrong_starts(
    tmp_path: Path, name: str, arguments: tuple[str, ...], message: str, webhook: Webhook
) -> None:
    more = [*arguments]
    if name == "no pattern":
        (tmp_path / EXTERNAL).write_text("(")
        more = ["--configs", str(tmp_path)]
    if name == "taken":
        more = ["--set", f"admission.listen={webhook.address}"]
    result = run("admission", *listening(webhook.files), *more)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


MOST = 4 << 20
"""The largest ConfigMap."""
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap"}


def configuration(name: str, data: Any, operation: str = "UPDATE") -> dict[str, Any]:
    return review(kind=CONFIG_MAP, name=name, operation=operation, object={"data": data})


QUEUES_KEY = "queues.yaml"
QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n"


def test_queue_configuration(webhook: Webhook) -> None:
    def ask(name: str, data: Any, operation: str = "UPDATE") -> dict[str, Any]:
        return webhook.review("/validate-conf", configuration(name, data, operation))

    assert ask("yunikorn-configs", {"queues.yaml": QUEUES})["allowed"]
    assert ask("yunikorn-configs", {})["allowed"]
    assert ask("yunikorn-configs", None)["allowed"]
    assert ask("other", {"queues.yaml": "no: yaml: ["})["allowed"]
    assert ask("yunikorn-configs", {"queues.yaml": "["}, "DELETE")["allowed"]
    refused = ask("yunikorn-configs", {"queues.yaml": QUEUES.replace("'*'", "'a b c'")})
    assert refused["allowed"] is False
    assert "queues.yaml:5:" in refused["status"]["message"]
    patterns = ask("yunikorn-defaults", {EXTERNAL: "(", "queues.yaml": "partitons: []"})
    assert "the pattern '(' is not valid" in patterns["status"]["message"]
    assert "queues.yaml:1:1: error" in patterns["status"]["message"]
    other_group = ask("yunikorn-configs", {"prod.yaml": "x: 1"}, "CREATE")
    assert "prod.yaml:1:1: error" in other_group["status"]["message"]
    assert ask("yunikorn-configs", {"queues.yaml": 7})["allowed"] is False
    many = "partitions:\n" + "".join(f"  - nam{n}: x\n" for n in range(500))
    message = ask("yunikorn-configs", {"queues.yaml": many})["status"]["message"]
    assert len(message.splitlines()) == 21
    assert message.splitlines()[-1].endswith(" more")


INVALID = Path("tests/unit/formats/invalid")


@rows
def test_queues_that_yunikorn_does_not_load(webhook: Webhook, name: str) -> None:
    """The answer is that of `validate`, whose errors the first comments of the file state."""
    text = (INVALID / f"{name}.yaml").read_text()
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    errors = [f"queues.yaml:{line}" for line in lines if ": error: " in line]
    answer = webhook.review("/validate-conf", configuration("yunikorn-configs", {QUEUES_KEY: text}))
    assert answer["allowed"] is False
    *shown, last = answer["status"]["message"].splitlines()
    more = last.startswith("and ")
    assert [*shown, *([] if more else [last])] == (errors[:20] if more else errors)
    assert errors


@rows
def test_placement_rules_and_child_templates(
    webhook: Webhook, rule: str, queue: str, fault: str
) -> None:
    text = (
        f"partitions: [{{name: default, placementrules: [{{name: {rule}}}],"
        f" queues: [{{name: root, submitacl: '*', queues: [{{{queue}}}]}}]}}]"
    )
    answer = webhook.review("/validate-conf", configuration("yunikorn-configs", {QUEUES_KEY: text}))
    assert answer["allowed"] is not bool(fault)
    assert fault in answer.get("status", {}).get("message", "")


def filled(before: str, unit: str, after: str, size: int) -> str:
    """Return a text of almost a size, with one thing again and again."""
    return before + unit * ((size - len(before + after)) // len(unit)) + after


ROOT = "partitions: [{name: default, queues: [{name: root, queues: ["


@pytest.mark.parametrize(
    "text",
    [
        filled("[", "[],", "]", MOST),
        filled(ROOT, "{},", "]}]}]", MOST),
        "a: &a {"
        + ",".join(f"{n}: 1" for n in range(1_000))
        + "}\nb: ["
        + "{<<: *a}," * 9_000
        + "]",
    ],
    ids=["lists", "queues", "merges"],
)
def test_a_small_body_that_unpacks_to_many_elements(webhook: Webhook, text: str) -> None:
    """Several at once take no more memory than the container has."""
    config_map = configuration("yunikorn-configs", None)
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    config_map["request"]["object"]["binaryData"] = {"queues.yaml.gz": packed}
    peak = 0
    with ThreadPoolExecutor(2) as pool:
        # A time limit that the check exceeds on a busy machine is an answer, too.
        asked = [
            pool.submit(webhook.http.post, "/validate-conf?timeout=30s", json=config_map)
            for _ in range(2)
        ]
        while not all(each.done() for each in asked):
            peak = max(peak, webhook.server.memory_of_all())
            time.sleep(0.01)
    for each in asked:
        answer = each.result()
        if answer.status_code == HTTPStatus.OK:
            assert not answer.json()["response"]["allowed"]
        else:
            assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            assert "the ConfigMap was not checked in time" in answer.text
    assert peak < 512 << 20


def test_compressed_queue_configuration(webhook: Webhook) -> None:
    def ask(value: str) -> dict[str, Any]:
        config_map = configuration("yunikorn-configs", None)
        config_map["request"]["object"]["binaryData"] = {"queues.yaml.gz": value}
        return webhook.review("/validate-conf", config_map)

    def packed(text: str) -> str:
        return base64.b64encode(gzip.compress(text.encode())).decode()

    assert ask(packed(QUEUES))["allowed"]
    message = ask(packed(QUEUES.replace("'*'", "'a b c'")))["status"]["message"]
    assert message.startswith("queues.yaml:5:")
    message = ask(base64.b64encode(QUEUES.encode()).decode())["status"]["message"]
    assert message == "queues.yaml.gz is not in gzip format"
    assert ask("?")["status"]["message"] == "binaryData.queues.yaml.gz is not base64"


def test_metrics_are_counted(webhook: Webhook) -> None:
    name, labels = "queuegate_admission_reviews_total", 'endpoint="mutate",outcome="{}"'
    outcomes = ("allowed", "patched", "denied", "malformed")
    before = [webhook.metric(name, labels.format(outcome)) for outcome in outcomes]
    webhook.review("/mutate", review(kind={"kind": "Service"}))
    webhook.review("/mutate", review())
    webhook.review("/mutate", review(object=SET))
    webhook.http.post("/mutate", content=b"{", headers={"Content-Type": "application/json"})
    after = [webhook.metric(name, labels.format(outcome)) for outcome in outcomes]
    assert [now - was for now, was in zip(after, before, strict=True)] == [1, 1, 1, 1]


def test_template_without_metadata(webhook: Webhook) -> None:
    template: dict[str, Any] = {"spec": {"template": {}}}
    deployment = {"group": "apps", "version": "v1", "kind": "Deployment"}
    response = webhook.review("/mutate", review(kind=deployment, object=template))
    annotations = {"yunikorn.apache.org/user.info": '{"user":"bob","groups":["dev"]}'}
    assert patch_of(response) == [
        {"op": "add", "path": "/spec/template/metadata", "value": {"annotations": annotations}}
    ]


def test_an_unknown_namespace_is_refused(tmp_path: Path) -> None:
    """Fail closed: without the namespace's annotations it is not known what applies."""
    (tmp_path / "account").mkdir()
    nobody = ("--api-server", "https://127.0.0.1:1", "--service-account", str(tmp_path / "account"))
    with running_webhook(tmp_path, "--namespace-annotations", *nobody) as webhook:
        response = webhook.review("/mutate", review())
        assert response["allowed"] is False
        assert "the namespace cannot be looked up" in response["status"]["message"]
        assert webhook.review("/mutate", review(kind={"kind": "Service"}))["allowed"]
