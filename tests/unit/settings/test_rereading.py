"""Settings that are read again from a file system that hangs."""

import asyncio
import threading

import pytest

from queuegate_server.settings import rereading
from queuegate_server.settings.load import SettingsError


async def test_a_reading_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rereading, "_READ_SECONDS", 0.05)
    may_go_on = threading.Event()

    def read() -> str:
        assert may_go_on.wait(30)
        return "read"

    settings = rereading.Rereading(read)
    with pytest.raises(SettingsError, match="reading them took longer"):
        await settings.read()
    with pytest.raises(SettingsError, match="an earlier attempt to read them still hangs"):
        await settings.read()
    may_go_on.set()
    monkeypatch.setattr(rereading, "_READ_SECONDS", 30.0)
    for _ in range(1_000):
        try:
            assert await settings.read() == "read"
            break
        except SettingsError:
            await asyncio.sleep(0.01)
    else:
        pytest.fail("it is not tried again")
