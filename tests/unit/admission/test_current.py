"""The mounted settings are read again when they change, and only then."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from queuegate_server.admission import watch
from queuegate_server.admission.current import CurrentSettings
from queuegate_server.admission.watch import on_change

KEY = "admissionController.accessControl.bypassAuth"


async def test_what_changed_before_the_watch_began_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_LOOK_MILLISECONDS", 10)
    acted = asyncio.Event()

    async def act() -> None:
        acted.set()

    watching = asyncio.create_task(on_change((tmp_path,), act))
    async with asyncio.timeout(60):
        await acted.wait()
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_each_text_is_told_once(tmp_path: Path) -> None:
    told: list[bool] = []
    current = CurrentSettings((tmp_path,), {}, told.append)
    folder, gone = tmp_path, tmp_path.with_name("gone")
    for text, expected in (
        ("true", [True]),
        ("maybe", [True, False]),
        ("\udcff", [True, False, False]),
        ("false", [True, False, False, True]),
    ):
        (tmp_path / KEY).write_text(text, errors="surrogateescape")
        for _ in range(3):
            await current.reload()
        assert told == expected
    folder.rename(gone)
    await current.reload()
    gone.rename(folder)
    await current.reload()
    assert told[4:] == [False, True]
