"""Reviews in unit tests are searched at once, however busy the machine is."""

import pytest

from queuegate_server.runtime import pacing


@pytest.fixture(autouse=True)
def _every_search_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 60.0)
