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
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.places import fields_by_key
from queuegate_server.settings.queue_schedulers import FLAT, Mode
from tests.support.rows import rows
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


@rows
def test_schedulers_under_rbac(tmp_path: Path, schedulers: str, fault: str) -> None:
    """RBAC gives each kind of queue its own path."""
    text = (
        f"admission: {{queues: {{schedulers: {{{schedulers}}}}}}}\npolicy: {{kubernetes: {{}}}}\n"
    )
    found = faults_of(tmp_path / "queuegate.yaml", text)
    assert [each.partition("admission.queues.schedulers: ")[2] for each in found] == (
        [fault] if fault else []
    )


@pytest.mark.parametrize("prefix", ["s", "system", "system:", "system:x", "a\u0007", "-"])
@pytest.mark.parametrize("key", ["users_prefix", "groups_prefix"])
def test_prefixes_that_are_refused(tmp_path: Path, key: str, prefix: str) -> None:
    policy = {"policy": {"kubernetes": {key: prefix}}}
    [found] = faults_of(tmp_path / "queuegate.yaml", json.dumps(policy))
    assert f"error: policy.kubernetes.{key}: " in found


@rows
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


@rows
def test_schedulers_that_share_no_queues(tmp_path: Path, schedulers: str) -> None:
    text = f"admission: {{queues: {{schedulers: {{{schedulers}}}}}}}"
    assert faults_of(tmp_path / "queuegate.yaml", text) == []


@rows
def test_templates_of_kueue(tmp_path: Path, kueue: str, message: str) -> None:
    found = faults_of_kueue(tmp_path, kueue)
    assert len(found) == bool(message)
    assert all(
        f"admission.queues.schedulers.kueue.{message}" in each or f"kueue: {message}" in each
        for each in found
    )


SAME, ABOVE = "the same path as", "a path above"


@rows
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


@rows
def test_which_names_acls_may_list(tmp_path: Path, text: str, expected: AclNames) -> None:
    """All, if no YuniKorn reads the policy: names of service accounts contain colons."""
    settings = loaded(tmp_path, text)
    options = settings.format_options(settings.policy, None, frozenset())
    assert options.acl_names_of("default") is expected


@rows
def test_what_needs_a_policy(tmp_path: Path, text: str, *, needs: bool) -> None:
    assert loaded(tmp_path, text).admission.needs_policy is needs
