"""`validate --config` with the `admission` section: files, clients and policies."""

import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner

from queuegate_server.cli.main import command_group
from queuegate_server.policystore.loader import MAX_KEPT_BYTES
from tests.support.servers.webhook import write_certificate

POLICY = """\
partitions:
  - name: default
    queues: [{name: root, queues: [{name: dev, submitacl: "system:serviceaccount:ci:runner"}]}]
"""
QUEUES = {"mode": "deny", "schedulers": {"volcano": {}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ca = trustme.CA()
    write_certificate(ca, tmp_path)
    ca.cert_pem.write_to_path("ca.crt")
    (tmp_path / "queues.yaml").write_text(POLICY)
    return tmp_path


def validated(queues: dict[str, Any] | None, **tls: Any) -> tuple[int, list[str]]:
    files = {"certificate_file": "tls.crt", "key_file": "tls.key", "client_ca_file": "ca.crt"}
    webhook = {"queues": queues, "tls": {**files, **tls}}
    settings = {
        "policy": {"path": "queues.yaml"},
        "admission": {
            key: {name: each for name, each in section.items() if each is not None}
            for key, section in webhook.items()
            if section is not None
        },
    }
    Path("queuegate.yaml").write_text(json.dumps(settings, indent=1))
    done = CliRunner().invoke(command_group(), ["validate", "--config", "queuegate.yaml"])
    return done.exit_code, done.stdout.splitlines()


def test_valid_settings(folder: Path) -> None:
    assert validated({**QUEUES, "groups": "kubernetes"}) == (0, [])


@pytest.mark.parametrize("option", ["--config", "--settings"])
def test_no_policy(folder: Path, option: str) -> None:
    queues = {**QUEUES, "groups": "kubernetes", "exempt": ["^"]}
    Path("queuegate.yaml").write_text(json.dumps({"admission": {"queues": queues}}, indent=1))
    done = CliRunner().invoke(command_group(), ["validate", option, "queuegate.yaml"])
    first, second = done.stdout.splitlines()
    assert done.exit_code == 0
    assert first.startswith(
        "queuegate.yaml:3:3: warning: admission.queues: no policy is configured"
    )
    assert 'admission.queues.exempt[0]: the pattern "^" matches every user' in second


@pytest.mark.parametrize(
    ("queues", "tls", "status", "expected"),
    [
        (QUEUES, {"key_file": "nosuch"}, 1, "admission.tls.key_file: nosuch cannot be read"),
        (QUEUES, {"key_file": "ca.crt"}, 1, "admission.tls.key_file: ca.crt"),
        (QUEUES, {"client_ca_file": "nosuch"}, 1, "admission.tls.client_ca_file: nosuch"),
        (QUEUES, {"client_ca_file": None}, 0, "anyone who can connect can post a review"),
        ({**QUEUES, "partition": "gpu"}, {}, 1, 'queues.partition: "gpu" is not in the policy'),
        (QUEUES, {}, 0, "queuegate.yaml:6:3: warning: admission.queues.groups: is directory, but"),
        ({**QUEUES, "unqueued": "root.x"}, {}, 0, 'queues.unqueued: "root.x" is not in the policy'),
        ({**QUEUES, "exempt": [".*"]}, {}, 0, 'queues.exempt[0]: the pattern ".*" matches every'),
    ],
)
def test_findings(
    folder: Path, queues: dict[str, Any], tls: dict[str, Any], status: int, expected: str
) -> None:
    code, lines = validated(queues, **tls)
    assert code == status
    assert any(expected in line for line in lines), lines


@pytest.mark.parametrize("queues", [None, {**QUEUES, "mode": "off"}])
def test_clients_of_a_webhook_that_checks_nothing(
    folder: Path, queues: dict[str, Any] | None
) -> None:
    _, lines = validated(queues, client_ca_file=None)
    assert not any("anyone who can connect" in line for line in lines)


def test_the_line_of_an_ambiguous_queue_in_a_large_policy(folder: Path) -> None:
    queues = "[{name: root, queues: [{name: dev}, {name: ml, queues: [{name: dev}]}]}]"
    policy = f"partitions:\n  - name: default\n    queues: {queues}\n"
    (folder / "queues.yaml").write_text(f"{policy}#{'-' * MAX_KEPT_BYTES}\n")
    code, lines = validated({**QUEUES, "groups": "kubernetes"})
    assert code == 1
    assert lines[0].startswith('queues.yaml:3:69: error: queue "root.ml.dev" has the same last')
    assert "(queues.yaml:3:36)" in lines[0]
