"""The inputs that broke a fuzz target once, and the seeds, through the targets; without atheris."""

import importlib
import re
from pathlib import Path
from typing import Any, Final

import pytest

from queuegate.policy import acl
from queuegate_server.admission.annotations import rules
from queuegate_server.formats import yaml_nodes
from queuegate_server.formats.yarn import fair_scheduler
from queuegate_server.identity.resolvers.ldap.entries import GroupKind
from queuegate_server.policystore.kubernetes import decoding
from queuegate_server.rpc import validation
from tests.fuzz.run import FOUND, TARGETS

INPUTS: Final = sorted(path for path in FOUND.glob("*/*") if path.is_file())


def module_of(name: str) -> Any:
    return importlib.import_module(f"tests.fuzz.targets.{name}")


def replay(name: str) -> None:
    module = module_of(name)
    for seed in module.seeds():
        module.target(seed)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_found_inputs(path: Path) -> None:
    module_of(path.parent.name).target(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    replay(name)


@pytest.mark.parametrize("name", TARGETS)
def test_short_inputs(name: str) -> None:
    module = module_of(name)
    for data in (b"", *(bytes([number]) for number in range(256)), b"\xff" * 10, bytes(10)):
        module.target(data)


@pytest.mark.parametrize(
    ("name", "place", "attribute", "bug"),
    [
        ("wire", validation, "CONTROL_CHARACTER", re.compile("(?!)")),
        ("acls", acl, "WILDCARD", "all"),
        (
            "yarn_xml",
            fair_scheduler,
            "FAIR_ACLS",
            {"aclSubmitApps": "admin", "aclAdministerApps": "submit"},
        ),
        ("queues_yaml", yaml_nodes, "_NULLS", frozenset[str]()),
        ("admission", rules, "_check", lambda *_: None),
        ("rbac_answers", decoding, "_interned", lambda names: tuple(names or ("*",))),
        ("ldap_answers", GroupKind, "name_in", lambda *_: "other"),
    ],
)
def test_a_target_fails_where_there_is_a_bug(
    name: str, place: Any, attribute: str, bug: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_of(name)
    monkeypatch.setattr(place, attribute, bug)
    with pytest.raises(AssertionError):
        replay(name)


def test_every_found_input_belongs_to_a_target() -> None:
    assert {path.parent.name for path in INPUTS} <= set(TARGETS)
