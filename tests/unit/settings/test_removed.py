"""Settings that no longer exist: what somebody who still sets one is told."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.config_fields import written_duration, written_size
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.removed import SETTINGS, RemovedSetting
from tests.support.settings_faults import faults


def settings_with(removed: RemovedSetting) -> str:
    """Return a file that contains the key."""
    value: Any = removed.value
    for key in reversed(removed.key.split(".")):
        value = {key: value}
    return f"{value}"


@pytest.mark.parametrize("removed", SETTINGS, ids=lambda each: each.key)
def test_an_error_names_the_key(removed: RemovedSetting, tmp_path: Path) -> None:
    [fault] = faults(tmp_path / "queuegate.yaml", settings_with(removed))
    says = f"error: {removed.key}: this setting was removed: {removed.value} always applies"
    assert says in fault
    assert "(delete the key" in fault


@pytest.mark.parametrize("removed", SETTINGS, ids=lambda each: each.key)
def test_variables_and_options(removed: RemovedSetting) -> None:
    name = "QUEUEGATE_" + removed.key.upper().replace(".", "__")
    with pytest.raises(SettingsError, match=f"{name}.*this setting was removed"):
        load_settings(variables={name: "1"})
    with pytest.raises(SettingsError, match=f"--set {removed.key}.*this setting was removed"):
        load_settings(options=[f"{removed.key}=1"])


@pytest.mark.parametrize("removed", SETTINGS, ids=lambda each: each.key)
def test_the_value_is_that_of_the_constant(removed: RemovedSetting) -> None:
    module, _, name = removed.constant.rpartition(".")
    value = getattr(importlib.import_module(f"queuegate_server.{module}"), name)
    forms = [str(value), f"{value:g}", f"{int(value):04o}"]
    assert removed.value in [*forms, written_duration(value), written_size(value)]
