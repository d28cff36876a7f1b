"""An authority that servers of these tests trust, and one that they do not."""

import pytest
import trustme

from tests.security.authorities import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), trustme.CA())


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the server does not trust."""
    return Authority(tmp_path_factory.mktemp("stranger"), trustme.CA())
