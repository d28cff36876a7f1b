"""Files that cannot be read, and keys that policies and settings share."""

from pathlib import Path

import pytest

from queuegate_server.formats.yunikorn.document import SETTINGS_KEYS
from queuegate_server.formats.yunikorn.misplaced_keys import PARTITION_SETTINGS
from queuegate_server.settings.load import MAX_BYTES, SettingsError, load_settings
from queuegate_server.settings.model import PartitionSettings, Settings
from queuegate_server.supervisor.channel import MAX_MESSAGE_BYTES


def test_policies_know_the_keys_of_the_settings() -> None:
    assert SETTINGS_KEYS | {"partitions"} == Settings.model_fields.keys()
    assert PartitionSettings.model_fields.keys() == PARTITION_SETTINGS


def test_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert str(caught.value) == (
        "queuegate.yaml: error: cannot be read: No such file or directory (check the path)"
    )


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(SettingsError, match="is larger than 4 MiB"):
        load_settings(file)
    with pytest.raises(SettingsError, match="is larger than 4 MiB"):
        load_settings(file, content=file.read_bytes())
    # A message to a worker holds the file twice, in base64.
    assert 2 * MAX_BYTES * 4 / 3 < MAX_MESSAGE_BYTES
