"""One event loop for all inputs: a new one for each would take longer than what it runs."""

import asyncio
import atexit
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LOOP: Final = asyncio.new_event_loop()
atexit.register(_LOOP.close)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    return _LOOP.run_until_complete(coroutine)
