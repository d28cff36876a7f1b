"""Fixtures for tests of the settings."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path without folders, for messages that are compared."""
    monkeypatch.chdir(tmp_path)
    return Path("queuegate.yaml")
