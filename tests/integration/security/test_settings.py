"""Settings of listeners and callers: accepted ones, and messages for the others."""

from pathlib import Path

import pytest

from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.rows import rows


@rows
def test_a_fault_names_its_place_and_the_remedy(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert fault in str(caught.value)


@rows
def test_listeners_that_are_accepted(tmp_path: Path, listener: str) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(f"listen: [{listener}]")
    assert len(load_settings(file).listen) == 1


def test_a_section_of_callers_keeps_what_it_does_not_name() -> None:
    settings = load_settings(None, {}, ["callers.loopback.roles=check,read,admin"])
    assert settings.callers.loopback.assert_groups
    assert settings.callers.unix.roles == ("check", "read", "sync")


def test_variables_of_the_client_are_no_settings() -> None:
    names = ("ADDRESS", "CA_FILE", "CERTIFICATE_FILE", "KEY_FILE", "SERVER_NAME", "TOKEN_FILE")
    load_settings(None, {f"QUEUEGATE_{name}": "x" for name in names})
