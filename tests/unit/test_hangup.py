"""What SIGHUP does when its settings cannot be read."""

import logging
import threading

import pytest

from queuegate_server.hangup import Hangup
from queuegate_server.process.systemd_notify import Notifier
from queuegate_server.settings.model import Settings


async def test_a_read_that_hangs_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    comes_back = threading.Event()

    def reread() -> Settings:
        comes_back.wait()
        return Settings(workers=2)

    settings = Settings()
    hangup = Hangup(settings, settings, reread, Notifier({}), seconds=0.01)
    applied: list[Settings] = []
    hangup.on_hangup.append(applied.append)
    try:
        # The second one finds the first one's read still hanging.
        await hangup.run()
        await hangup.run()
    finally:
        comes_back.set()
    assert applied == [settings, settings]
    assert [
        record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    ] == ["settings cannot be read in time; the old ones stay"] * 2
