"""Authorities: that which servers of these tests trust, a stranger, and one of a test alone."""

from pathlib import Path

import pytest
import trustme

from tests.integration.security.authorities import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), trustme.CA())


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the server does not trust."""
    return Authority(tmp_path_factory.mktemp("stranger"), trustme.CA())


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    """Return an authority of one test alone."""
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority(folder, trustme.CA())
