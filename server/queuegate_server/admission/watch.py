"""Acts on changes in folders."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import watchfiles

_LOG = logging.getLogger("queuegate_server.admission")
_DEBOUNCE_MILLISECONDS: Final = 300
_LOOK_MILLISECONDS: Final = 1_000
_WATCH_AGAIN_SECONDS: Final = 5.0


async def on_change(folders: Sequence[Path], act: Callable[[], Awaitable[None]]) -> None:
    """Call `act` once the folders are watched, for what changed before, and after every
    change in one of them, until cancelled.

    Folders and not files: Kubernetes replaces a link beside the files of a mount, which a
    watch on a file does not see.
    """
    while True:
        is_looked_at = False
        try:
            async for changes in watchfiles.awatch(
                *folders,
                watch_filter=None,
                debounce=_DEBOUNCE_MILLISECONDS,
                rust_timeout=_LOOK_MILLISECONDS,
                yield_on_timeout=True,
                recursive=False,
            ):
                if changes or not is_looked_at:
                    is_looked_at = True
                    await act()
        except (OSError, RuntimeError) as error:
            _LOG.warning(
                "cannot watch folders",
                extra={"folders": [str(folder) for folder in folders], "error": str(error)},
            )
        await asyncio.sleep(_WATCH_AGAIN_SECONDS)
        # What happened while nobody watched.
        await act()
