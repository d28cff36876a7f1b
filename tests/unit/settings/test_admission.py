"""The section `admission`: its values, their faults, and what they change elsewhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from queuegate.policy.acl import AclNames
from queuegate_server.settings.admission import FLAT, Admission, Mode
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.places import fields_by_key
from tests.support.settings_faults import faults

QUEUES = "admission:\n  queues:\n    schedulers: {kueue: {}}\n"


def loaded(tmp_path: Path, text: str, *options: str) -> Settings:
    file = tmp_path / "queuegate.yaml"
    file.write_text(text)
    return load_settings(file, {}, options)


def faults_of(file: Path, text: str) -> list[str]:
    """Return the errors; none if the settings are valid."""
    file.write_text(text)
    try:
        load_settings(file)
    except SettingsError as error:
        return list(map(str, error.diagnostics))
    return []


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
    text = "admission:\n  queues:\n    schedulers:\n      yunikorn:\n      kueue:\n"
    queues = loaded(tmp_path, text).admission.queues
    assert queues is not None
    assert queues.schedulers.yunikorn is not None
    assert queues.schedulers.kueue is not None
    assert queues.schedulers.volcano is None


SHARED = [
    ("kai: {}, volcano: {}", "kai: {below: root.kai}"),
    ("kueue: {}, volcano: {}, kai: {}", "volcano: {below: root.volcano}, kai: {below: root.kai}"),
    ("yunikorn: {}, kai: {}", "set kai: {below: root.kai}, and move"),
    ("kueue: {}, koordinator: {}", "set koordinator: {below: root.koordinator}, and move"),
    ("kai: {below: root.a}, slurm-bridge: {below: root.a}", "slurm-bridge: {below: root.slurm-"),
    ("kai: {below: root.a}, volcano: {below: root.a.b}", "kai: {below: root.kai}"),
    ("kai: {below: root.a.b}, volcano: {below: root.A}", "kai: {below: root.kai}"),
    ("kueue: {}, kai: {below: root.namespaces}", "set kai: {below: root.kai}, and move"),
    ("kueue: {}, kai: {below: root.cohorts.x}", "set kai: {below: root.kai}, and move"),
    (
        "yunikorn: {}, kueue: {localqueues: 'root.{namespace}_.lq.{queue}'}",
        'set kueue: {localqueues: "root.namespaces.{namespace}.{queue}", clusterqueues: "root.',
    ),
    (
        "kai: {below: root.kai}, kueue: {localqueues: 'root.{namespace}_.lq.{queue}'}",
        'set kueue: {localqueues: "root.namespaces.{namespace}.{queue}", clusterqueues: "root.',
    ),
]


@pytest.mark.parametrize(("schedulers", "remedy"), SHARED)
def test_schedulers_that_share_queues(tmp_path: Path, schedulers: str, remedy: str) -> None:
    text = f"admission: {{queues: {{schedulers: {{{schedulers}}}}}}}"
    (found,) = faults(tmp_path / "queuegate.yaml", text)
    assert "error: admission.queues.schedulers: " in found
    assert remedy in found
    # The remedy is valid, with what it does not mention.
    chosen = yaml.safe_load(f"{{{found.partition(': set ')[2].partition(', and move')[0]}}}")
    merged = {**yaml.safe_load(f"{{{schedulers}}}"), **chosen}
    assert (
        faults_of(
            tmp_path / "queuegate.yaml",
            json.dumps({"admission": {"queues": {"schedulers": merged}}}),
        )
        == []
    )


@pytest.mark.parametrize(
    "schedulers",
    [
        "kai: {}",
        "kai: {below: root.a.b}",
        "yunikorn: {}, kueue: {}",
        "kueue: {localqueues: 'root.{namespace}_.lq.{queue}'}",
        "kai: {}, volcano: {mode: off}",
        "kai: {below: root.a}, volcano: {below: root.ab}",
        "kueue: {}, kai: {below: root.kai}, yunikorn: {}, volcano: {below: root.volcano}",
        "kai: {}, places: [{label: example.com/queue}]",
    ],
)
def test_schedulers_that_share_no_queues(tmp_path: Path, schedulers: str) -> None:
    text = f"admission: {{queues: {{schedulers: {{{schedulers}}}}}}}"
    assert faults_of(tmp_path / "queuegate.yaml", text) == []


@pytest.mark.parametrize(
    ("kueue", "message"),
    [
        ("", ""),
        ("localqueues: 'root.lq.{queue}'", ""),
        ("localqueues: 'root.lq.{namespace}.{queue}.x'", ""),
        ("localqueues: 'root.{namespace}_{queue}'", ""),
        ("localqueues: 'root.{namespace}_.{queue}', cohorts: 'root.{queue}_c'", ""),
        ("localqueues: 'root.l-{queue}.a', clusterqueues: 'root.c-{queue}.a'", ""),
        ("clusterqueues: 'root.c-{queue}', cohorts: 'root.c.{queue}'", ""),
        ("clusterqueues: 'root.kueue.{queue}.c', cohorts: 'root.kueue.{queue}.d'", ""),
        ("localqueues: 'root.ml.{namespace}-{queue}'", "localqueues can give two queues"),
        ("localqueues: 'root.ml.{queue}{namespace}'", "localqueues can give two queues"),
        ("cohorts: 'root.{namespace}.{queue}'", "cohorts: cohorts belong to no namespace"),
        ("cohorts: 'root.all'", "cohorts: the placeholder {queue} is missing"),
    ],
)
def test_templates_of_kueue(tmp_path: Path, kueue: str, message: str) -> None:
    found = faults_of_kueue(tmp_path, kueue)
    assert len(found) == bool(message)
    assert all(
        f"admission.queues.schedulers.kueue.{message}" in each or f"kueue: {message}" in each
        for each in found
    )


SAME, ABOVE = "the same path as", "a path above"


@pytest.mark.parametrize(
    ("kueue", "first", "relation", "second"),
    [
        ("cohorts: 'root.clusterqueues.{queue}'", "clusterqueues", SAME, "cohorts"),
        ("cohorts: 'root.ClusterQueues.{queue}'", "clusterqueues", SAME, "cohorts"),
        ("cohorts: 'root.clusterqueues.c-{queue}'", "clusterqueues", SAME, "cohorts"),
        (
            "localqueues: 'root.{queue}', clusterqueues: 'root.{queue}'",
            *("localqueues", SAME, "clusterqueues"),
        ),
        ("localqueues: 'root.clusterqueues.{queue}'", "localqueues", SAME, "clusterqueues"),
        ("localqueues: 'root.{queue}.{namespace}'", "localqueues", SAME, "clusterqueues"),
        ("localqueues: 'root.{namespace}.{queue}'", "localqueues", SAME, "clusterqueues"),
        (
            "localqueues: 'root.a-{queue}.b', cohorts: 'root.{queue}-c.b'",
            *("localqueues", SAME, "cohorts"),
        ),
        # The ClusterQueue `ml` lies above the LocalQueues of the namespace `ml`.
        ("clusterqueues: 'root.namespaces.{queue}'", "clusterqueues", ABOVE, "localqueues"),
        ("clusterqueues: 'root.Namespaces.{queue}'", "clusterqueues", ABOVE, "localqueues"),
        ("clusterqueues: 'root.namespaces.c-{queue}'", "clusterqueues", ABOVE, "localqueues"),
        ("clusterqueues: 'root.{queue}'", "clusterqueues", ABOVE, "localqueues"),
        # The ClusterQueue `namespaces` has the path of the namespace `c`.
        ("clusterqueues: 'root.{queue}.c'", "clusterqueues", ABOVE, "localqueues"),
        # The cohorts `clusterqueues` and `namespaces` lie above all queues of these kinds.
        ("cohorts: 'root.{queue}'", "cohorts", ABOVE, "localqueues"),
        ("cohorts: 'root.cluster{queue}'", "cohorts", ABOVE, "clusterqueues"),
        ("cohorts: 'root.namespaces.{queue}'", "cohorts", ABOVE, "localqueues"),
        ("cohorts: 'root.clusterqueues.{queue}.c'", "clusterqueues", ABOVE, "cohorts"),
        ("cohorts: 'root.clusterqueues.gpu.{queue}'", "clusterqueues", ABOVE, "cohorts"),
        ("localqueues: 'root.{queue}'", "localqueues", ABOVE, "clusterqueues"),
        # The LocalQueues of the namespace `clusterqueues` lie below ClusterQueues.
        ("localqueues: 'root.{namespace}.{queue}.x'", "clusterqueues", ABOVE, "localqueues"),
        ("localqueues: 'root.{namespace}.lq.{queue}'", "clusterqueues", ABOVE, "localqueues"),
        ("localqueues: 'root.cohorts.{namespace}.{queue}'", "cohorts", ABOVE, "localqueues"),
    ],
)
def test_an_acl_for_one_queue_of_kueue_never_allows_another(
    tmp_path: Path, kueue: str, first: str, relation: str, second: str
) -> None:
    (found,) = faults_of_kueue(tmp_path, kueue)
    assert re.search(
        rf"kueue: {first} \(.*\) can give a queue {relation} one of {second} \(", found
    )
    # The settings in the message are valid.
    templates = yaml.safe_load(found.partition("as in kueue: ")[2].partition(", and move")[0])
    assert faults_of_kueue(tmp_path, json.dumps(templates)[1:-1]) == []


def faults_of_kueue(tmp_path: Path, kueue: str) -> list[str]:
    text = f"admission: {{queues: {{schedulers: {{kueue: {{{kueue}}}}}}}}}"
    return faults_of(tmp_path / "queuegate.yaml", text)


def _sections(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a section's keys, at every depth; that of a list's items has a 0."""
    for key, field in fields_by_key(model).items():
        yield (*path, key)
        kinds = get_args(field.annotation) or (field.annotation,)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                item = ("0",) if get_origin(field.annotation) is tuple else ()
                yield from _sections(kind, (*path, key, *item))


KEYS = [*_sections(Admission, ("admission",))]
EMPTY = {
    "admission": [],
    "admission.queues": ["admission.queues: schedulers is empty: list a scheduler"],
    "admission.queues.schedulers": ["admission.queues: schedulers is empty: list a scheduler"],
    "admission.tls": [
        "admission.tls.certificate_file: is required",
        "admission.tls.key_file: is required",
    ],
    "admission.authorize": [],
    "admission.user_info": [],
    "admission.yunikorn": [],
    **{f"admission.queues.schedulers.{name}": [] for name in (*FLAT, "kueue", "yunikorn")},
}
"""The faults of sections without keys: none if the section may be empty."""


@pytest.mark.parametrize("path", [("admission",), *KEYS], ids=".".join)
def test_keys_without_a_value(tmp_path: Path, path: tuple[str, ...]) -> None:
    """Such a key never selects a default: it is an empty section, or an error that names it."""
    value: object = None
    for part in reversed(path):
        value = [value] if part == "0" else {part: value}
    found = faults_of(tmp_path / "queuegate.yaml", json.dumps(value))
    name = ".".join(path).replace(".0.", "[0].")
    if name in EMPTY:
        assert len(found) == len(EMPTY[name])
        for text, expected in zip(found, EMPTY[name], strict=True):
            assert f"error: {expected}" in text
    else:
        assert any(f"error: {name}: has no value (write " in text for text in found), found


def test_a_variable_has_underscores_for_hyphens(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text("admission: {queues: {schedulers: {slurm-bridge: {}}}}")
    name = "QUEUEGATE_ADMISSION__QUEUES__SCHEDULERS__SLURM_BRIDGE__MODE"
    queues = load_settings(file, {name: "deny"}).admission.queues
    assert queues is not None
    assert queues.schedulers.slurm_bridge is not None
    assert queues.schedulers.slurm_bridge.mode is Mode.DENY


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
