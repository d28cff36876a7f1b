"""The event loop that the servers run on."""

import asyncio
from collections.abc import Coroutine


def run_in_loop(main: Coroutine[object, object, None]) -> None:
    """Run a server on uvloop, or where that does not exist on asyncio's own loop."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
