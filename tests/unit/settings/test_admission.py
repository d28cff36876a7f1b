"""The section `admission`: its values, their faults, and what they change elsewhere."""

from pathlib import Path

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.settings.admission import Mode
from queuegate_server.settings.load import load_settings
from queuegate_server.settings.model import Settings
from tests.support.settings_faults import faults

QUEUES = "admission:\n  queues:\n    schedulers: {kueue: {}}\n"


def loaded(tmp_path: Path, text: str, *options: str) -> Settings:
    file = tmp_path / "queuegate.yaml"
    file.write_text(text)
    return load_settings(file, {}, options)


@pytest.mark.parametrize("text", ["off", "'off'", "Off", "false"])
def test_off_in_all_spellings_of_yaml(tmp_path: Path, text: str) -> None:
    """YAML 1.1 reads `off` as a boolean, which Helm writes as `false`."""
    queues = loaded(tmp_path, f"{QUEUES}    mode: {text}\n").admission.queues
    assert queues is not None
    assert queues.mode is Mode.OFF


def test_off_as_a_boolean() -> None:
    queues = {"mode": False, "schedulers": {"kueue": {"mode": False}}}
    settings = Settings.model_validate({"admission": {"queues": queues}})
    assert settings.admission.queues is not None
    assert settings.admission.queues.mode is Mode.OFF
    assert settings.admission.queues.schedulers.kueue is not None
    assert settings.admission.queues.schedulers.kueue.mode is Mode.OFF


def test_a_scheduler_without_keys_is_listed(tmp_path: Path) -> None:
    text = "admission:\n  queues:\n    schedulers:\n      volcano:\n      slurm-bridge:\n"
    queues = loaded(tmp_path, text).admission.queues
    assert queues is not None
    assert queues.schedulers.volcano is not None
    assert queues.schedulers.slurm_bridge is not None
    assert queues.schedulers.kueue is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "admission: {queues: {}}",
            "1:13: error: admission.queues: schedulers is empty: list a scheduler",
        ),
        (f"{QUEUES}    mod: deny", "4:5: error: admission.queues.mod: unknown key (did you mean"),
        (
            "admission: {queues: {schedulers: {kueu: {}}}}",
            "1:35: error: admission.queues.schedulers.kueu: unknown key (did you mean kueue?)",
        ),
        (
            "admission: {queues: {schedulers: {slurm_bridg: {}}}}",
            "1:35: error: admission.queues.schedulers.slurm_bridg: unknown key",
        ),
        (
            "admission: {queues: {schedulers: {places: [{kind: x y/Job, field: spec.queue}]}}}",
            "admission.queues.schedulers.places[0].kind: must match the pattern",
        ),
        (
            "admission: {queues: {schedulers: {places: [{kind: x/Job}]}}}",
            "kind and field belong together: set both",
        ),
        (
            "admission: {queues: {schedulers: {places: }}}",
            "admission.queues.schedulers.places: must be a list",
        ),
        (
            f"{QUEUES}    mode: strict",
            "4:11: error: admission.queues.mode: must be 'off', 'warn' or 'deny'",
        ),
        (f"{QUEUES}    exempt: ['(']", "4:14: error: admission.queues.exempt[0]: the pattern '('"),
        (
            "admission: {queues: {schedulers: {kueue: {localqueues: 'root.{name}'}}}}",
            "admission.queues.schedulers.kueue.localqueues: unknown placeholder {name}",
        ),
        (f"{QUEUES}    unqueued: drop", "4:15: error: admission.queues.unqueued: write allow"),
        ("admission: {listen: here}", "1:21: error: admission.listen: not an address"),
        ("admission: {tls: {key_file: k}}", "admission.tls.certificate_file: is required"),
        (
            "admission: {tls: {certificate_file: c, key_file: k, client_names: ['cn:x']}}",
            "client_names needs client_ca_file, which verifies certificates",
        ),
    ],
)
def test_faults(tmp_path: Path, text: str, expected: str) -> None:
    (found,) = faults(tmp_path / "queuegate.yaml", text)
    assert expected in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", AclNames.YUNIKORN),
        (QUEUES, AclNames.ANY),
        (f"{QUEUES}partitions: {{default: {{acl_names: extended}}}}", AclNames.EXTENDED),
        (f"{QUEUES}partitions: {{default: {{acl_names: yunikorn}}}}", AclNames.YUNIKORN),
        (f"{QUEUES}partitions: {{default: {{trust_provided_groups: false}}}}", AclNames.ANY),
        ("admission: {queues: {schedulers: {yunikorn: {}, kueue: {}}}}", AclNames.YUNIKORN),
    ],
)
def test_which_names_acls_may_list(tmp_path: Path, text: str, expected: AclNames) -> None:
    """All, if no YuniKorn reads the policy: names of service accounts contain colons."""
    settings = loaded(tmp_path, text)
    options = settings.format_options(settings.policy, None, frozenset())
    assert options.acl_names_of("default") is expected


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("", False),
        ("admission: {listen: '0.0.0.0:8443'}", False),
        (QUEUES, True),
        ("admission: {user_info: {groups: directory}}", True),
        ("admission: {user_info: {groups: kubernetes}}", False),
    ],
)
def test_what_needs_a_policy(tmp_path: Path, text: str, *, needs: bool) -> None:
    assert loaded(tmp_path, text).admission.needs_policy is needs
