"""Acts on changes in folders."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import watchfiles

_LOG = logging.getLogger("queuegate_server.admission")
_DEBOUNCE_MILLISECONDS: Final = 300
_WATCH_AGAIN_SECONDS: Final = 5.0


async def on_change(folders: Sequence[Path], act: Callable[[], Awaitable[None]]) -> None:
    """Call `act` after every change in one of the folders, until cancelled.

    Folders and not files: Kubernetes replaces a link beside the files of a mount, which a
    watch on a file does not see.
    """
    while True:
        try:
            async for _ in watchfiles.awatch(
                *folders, watch_filter=None, debounce=_DEBOUNCE_MILLISECONDS, recursive=False
            ):
                await act()
        except (OSError, RuntimeError) as error:
            _LOG.warning(
                "cannot watch folders",
                extra={"folders": [str(folder) for folder in folders], "error": str(error)},
            )
        await asyncio.sleep(_WATCH_AGAIN_SECONDS)
        # What happened while nobody watched.
        await act()
