"""What every test gets: an environment without our settings, and bounded random cases."""

import os

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "queuegate",
    # Two shared cores: a slow example is no finding.
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("queuegate")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in [name for name in os.environ if name.startswith("QUEUEGATE_")]:
        monkeypatch.delenv(name)
