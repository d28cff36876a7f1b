"""Settings and options that no longer exist: what somebody who still uses one is told."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from queuegate_server.cli.main import command_group
from queuegate_server.config_fields import written_duration, written_size
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.removed import RemovedSetting, removed_options, removed_settings
from tests.support.settings_faults import faults

REMOVED = removed_settings()
OF_TYPES = [(each, kind) for each in REMOVED for kind in each.resolver_types or ("os",)]


def named(value: RemovedSetting | str) -> str:
    return value if isinstance(value, str) else f"{value.key} {value.constant}"


def settings_with(removed: RemovedSetting, resolver_type: str) -> str:
    """Return a file that contains the key."""
    *sections, last = removed.key.split(".")
    value: Any = {last: removed.value or 1}
    if sections[:1] == ["resolvers"]:
        value["type"] = resolver_type
    for key in reversed(sections):
        value = {key: value}
    return f"{value}"


@pytest.mark.parametrize(("removed", "resolver_type"), OF_TYPES, ids=named)
def test_an_error_names_the_key(
    removed: RemovedSetting, resolver_type: str, tmp_path: Path
) -> None:
    found = faults(tmp_path / "queuegate.yaml", settings_with(removed, resolver_type))
    always = f": {removed.value} always applies" if removed.value else ""
    says = f"error: {removed.key}: this setting was removed{always} (delete the key"
    assert [says in fault for fault in found].count(True) == 1, found


@pytest.mark.parametrize(
    "removed",
    [each for each in REMOVED if not each.key.startswith("resolvers")],
    ids=named,
)
def test_variables_and_options(removed: RemovedSetting) -> None:
    name = "QUEUEGATE_" + removed.key.upper().replace(".", "__")
    with pytest.raises(SettingsError, match=f"{name}.*this setting was removed"):
        load_settings(variables={name: "1"})
    with pytest.raises(SettingsError, match=f"--set {removed.key}.*this setting was removed"):
        load_settings(options=[f"{removed.key}=1"])


@pytest.mark.parametrize("removed", [each for each in REMOVED if each.value], ids=named)
def test_the_value_is_that_of_the_constant(removed: RemovedSetting) -> None:
    module, _, name = removed.constant.rpartition(".")
    value = getattr(importlib.import_module(f"queuegate_server.{module}"), name)
    forms = [str(value), f"{value:g}", f"{int(value):04o}"]
    assert removed.value in [*forms, written_duration(value), written_size(value)]


@pytest.mark.parametrize(
    ("command", "option", "instead"),
    [
        (command.removeprefix("queuegate-server "), each.name, each.instead)
        for each in removed_options()
        for command in each.commands
        if command.startswith("queuegate-server ")
    ],
)
def test_an_error_says_what_replaces_an_option(command: str, option: str, instead: str) -> None:
    refused = CliRunner().invoke(command_group(), [command, option, "x"])
    assert refused.exit_code == 2
    assert f"No such option '{option}': it was removed: {instead}" in refused.stderr
