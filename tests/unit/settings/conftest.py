"""Where the settings of a test are."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path of one word, for messages that can be compared."""
    monkeypatch.chdir(tmp_path)
    return Path("queuegate.yaml")
