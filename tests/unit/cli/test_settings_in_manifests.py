"""`queuegate-server validate --settings` for the manifests in which Kubernetes keeps settings."""

import base64
import json
import re
import textwrap
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
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: queuegate}\n"


def run(text: str) -> Result:
    return CliRunner().invoke(validate, ["--settings", "-"], input=text)


def test_a_config_map_is_opened() -> None:
    done = run(CONFIG_MAP % 2)
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_finding_has_the_position_in_the_manifest(tmp_path: Path) -> None:
    file = tmp_path / "callers.yaml"
    file.write_text(CONFIG_MAP % "many")
    done = CliRunner().invoke(validate, ["--settings", str(file)])
    assert done.stdout == f"{file}:6:14: error: workers: must be a whole number\n"
    assert done.exit_code == 1


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


def test_the_output_of_a_renderer_has_several_documents() -> None:
    done = run(f"{SERVICE}---\n# a comment\n---\n{CONFIG_MAP % 'many'}---\n{SERVICE}")
    assert done.stdout == "<stdin>:12:14: error: workers: must be a whole number\n"


@pytest.mark.parametrize("settings", ["workers: 2\n", "workers: many\n"])
def test_lists_json_and_secrets(settings: str) -> None:
    is_valid = "many" not in settings
    item = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"queuegate.yaml": settings}}
    encoded = base64.b64encode(settings.encode()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"queuegate.yaml": encoded}}
    for document in (item, secret, {"apiVersion": "v1", "kind": "List", "items": [item, item]}):
        done = run(json.dumps(document))
        assert done.exit_code == (0 if is_valid else 1), done.stdout
        assert ("workers: must be a whole number" in done.stdout) == (not is_valid)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            SERVICE,
            (
                "<stdin>: error: no ConfigMap here has the key queuegate.yaml"
                " (use the manifest that contains the settings)\n"
            ),
        ),
        (
            f"{CONFIG_MAP % 1}---\n{CONFIG_MAP % 2}",
            (
                "<stdin>:14:19: error: the file contains several versions of the settings:"
                " queuegate.yaml on line 5, and queuegate.yaml on line 14"
                " (put each in its own file)\n"
            ),
        ),
    ],
)
def test_manifests_without_exactly_one_version(text: str, finding: str) -> None:
    done = run(text)
    assert (done.exit_code, done.stdout) == (1, finding)


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
FILES = {
    "listen[0].tls.certificate_file",
    "listen[0].tls.key_file",
    "policy.configs",
    "callers.token_file",
    "fleet.secret_file",
    "fleet.ca_file",
    "resolvers.directory.ca_file",
    "resolvers.directory.bind_password_file",
    "resolvers.yunikorn.secrets_dir",
}


def test_files_of_the_cluster_are_worth_a_warning() -> None:
    done = run(CONFIG_MAP % 2 + IN_CLUSTER)
    assert done.exit_code == 0, done.stdout
    findings = re.findall(r": warning: (\S+): \S+ does not exist on this machine", done.stdout)
    assert len(findings) == len(done.stdout.splitlines())
    assert set(findings) == FILES


def test_files_of_the_cluster_hide_no_error() -> None:
    text = CONFIG_MAP % 2 + IN_CLUSTER + "    transport: native\n"
    done = run(text)
    assert done.exit_code == 1
    assert "error: transport: " in done.stdout
    assert done.stdout.count("warning") == len(FILES)


def test_files_that_exist_are_checked(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("short")
    done = run(CONFIG_MAP % 2 + IN_CLUSTER.replace("/nowhere/secret,", f"{tmp_path}/secret,"))
    assert done.exit_code == 1
    assert "error: fleet.secret_file: the file must contain a secret of" in done.stdout


def test_settings_of_this_machine_need_their_files(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(textwrap.dedent(IN_CLUSTER))
    done = CliRunner().invoke(validate, ["--settings", str(file)])
    assert done.exit_code == 1
    assert "error: fleet.secret_file: the file cannot be read" in done.stdout


@pytest.mark.parametrize("head", ["", "apiVersion: kustomize.config.k8s.io/v1beta1\n"])
def test_a_kustomization(tmp_path: Path, head: str) -> None:
    file = tmp_path / "kustomization.yaml"
    file.write_text(f"{head}resources: [deployment.yaml]\n")
    done = CliRunner().invoke(validate, ["--settings", str(file)])
    assert done.stdout == (
        f"{file}: error: a kustomization names files, and contains no settings itself (use the"
        " output of `kubectl kustomize` for its folder)\n"
    )
    assert done.exit_code == 1


def test_a_repeated_key_is_an_error() -> None:
    """Kubernetes would use one of the two values."""
    done = run(CONFIG_MAP % 1 + "  queuegate.yaml: 'workers: 2'\n")
    assert done.exit_code == 1
    assert "queuegate.yaml" in done.stdout
    assert "<stdin>:9:3: error: " in done.stdout


def test_broken_yaml_is_reported_at_its_position() -> None:
    done = run(f"{CONFIG_MAP % 1}---\n{SERVICE}spec: [\n")
    assert done.exit_code == 1
    assert done.stdout.startswith("<stdin>:14:1: error: invalid YAML")


def test_settings_that_mention_a_manifest() -> None:
    assert run("# apiVersion: v1\nworkers: 2\n").exit_code == 0


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


CORE_SITE = (
    "<configuration><property><name>hadoop.security.group.mapping</name><value>x</value></property>"
    "</configuration>"
)


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        (CORE_SITE, "this is a Hadoop configuration file, not the settings of queuegate-server"),
        ("policy: {semantics: hadoop}", "unknown key (write it under partitions.NAME; known keys"),
        ("audit: {path: /nowhere/audit.log}", "audit.path: the folder /nowhere does not exist"),
    ],
)
def test_settings_of_an_administrator_of_yarn(settings: str, finding: str) -> None:
    done = run(settings)
    assert finding in done.stdout
    assert done.exit_code == 1


def test_an_attribute_of_names_where_dns_are_compared() -> None:
    done = run(
        "resolvers: {d: {type: ldap, urls: ['ldaps://a'], bind: anonymous, user_base: dc=a,"
        " group_base: dc=a, member_attribute: memberUid}}"
    )
    assert "warning: resolvers.d.member_attribute: memberUid lists the names" in done.stdout
    assert "(set groups_from: member_uid, or preset: posix)" in done.stdout
    assert done.exit_code == 0
