"""`queuegate-server validate --settings` for the manifests in which Kubernetes keeps settings."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.policy_files import validate
from queuegate_server.settings.load import SettingsError, load_settings

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: queuegate-settings}
data:
  queuegate.yaml: |
    workers: %s

    ops: {listen: "127.0.0.1:9464"}
"""


def run(text: str) -> Result:
    return CliRunner().invoke(validate, ["--settings", "-"], input=text)


def test_settings_of_the_webhook(tmp_path: Path) -> None:
    text = Path("deploy/admission/queues/settings.yaml").read_text(encoding="utf-8")
    text = text.replace("/etc/yunikorn", str(tmp_path))
    for name in ("defaults", "configs"):
        (tmp_path / name).mkdir()
    (tmp_path / "configs/queues.yaml").write_text("partitions: []\n", encoding="utf-8")
    done = run(text)
    assert (done.exit_code, done.stdout) == (0, "")
    line = text.splitlines().index("        mode: warn") + 1
    done = run(text.replace("mode: warn", "mode: reject"))
    expected = "admission.queues.mode: must be 'off', 'warn' or 'deny'"
    assert done.stdout == f"<stdin>:{line}:15: error: {expected}\n"
    assert done.exit_code == 1


IN_CLUSTER = """\
    listen:
      - address: "0.0.0.0:50052"
        tls: {certificate_file: /nowhere/tls.crt, key_file: /nowhere/tls.key}
    policy: {configs: /nowhere/configs}
    callers: {token_file: /nowhere/tokens}
    fleet: {url: "rediss://valkey:6379", secret_file: /nowhere/secret, ca_file: /nowhere/ca.crt}
    resolvers:
      directory:
        type: ldap
        urls: ["ldaps://ldap.example.com"]
        user_base: "ou=people,dc=example,dc=com"
        group_base: "ou=groups,dc=example,dc=com"
        ca_file: /nowhere/ldap-ca.crt
        bind_dn: "cn=queuegate,dc=example,dc=com"
        bind_password_file: /nowhere/password
      yunikorn: {type: ldap, secrets_dir: /nowhere/secrets}
"""


def test_files_that_exist_are_checked(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    done = run(CONFIG_MAP % 2 + IN_CLUSTER.replace("/nowhere/secret,", f"{tmp_path}/secret,"))
    assert done.exit_code == 1
    assert "error: fleet.secret_file: the file must contain a secret of" in done.stdout


def test_a_server_says_that_its_settings_are_a_manifest(tmp_path: Path) -> None:
    """It reads the file that Kubernetes mounts, not the manifest."""
    file = tmp_path / "callers.yaml"
    file.write_text(CONFIG_MAP % 2)
    with pytest.raises(SettingsError) as raised:
        load_settings(file)
    assert str(raised.value) == (
        f"{file}: error: this is a Kubernetes manifest, not the settings of queuegate-server (save"
        " the value of its key queuegate.yaml as a file, or check it with `queuegate-server"
        " validate --settings`, which reads manifests)"
    )
