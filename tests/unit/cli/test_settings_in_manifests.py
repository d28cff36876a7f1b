"""`queuegate-server validate --settings` for the manifests in which Kubernetes keeps settings."""

import base64
import json
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
                " (put each in a file of its own)\n"
            ),
        ),
    ],
)
def test_manifests_without_exactly_one_version(text: str, finding: str) -> None:
    done = run(text)
    assert (done.exit_code, done.stdout) == (1, finding)


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
