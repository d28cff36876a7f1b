"""Records our modules that a call passes through, in order."""

import asyncio
import sys
from collections.abc import Coroutine
from types import FrameType
from typing import Any

PREFIX = "queuegate_server."


class ModuleWalk:
    """Records each module that a task and its subtasks enter until a driver is called."""

    def __init__(self, driver: str) -> None:
        self.stays: list[str] = []
        """The modules, without consecutive repetitions."""
        self._driver = driver
        self._frames: set[FrameType] = set()
        self._ended = False

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do work and return its result."""
        sys.setprofile(self._note)
        try:
            return await asyncio.create_task(work)
        finally:
            sys.setprofile(None)
            self._frames.clear()

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        # A coroutine that resumes is not a new call.
        if event != "call" or self._ended or frame in self._frames:
            return
        self._ended = module.partition(".")[0] == self._driver
        if module.startswith(PREFIX):
            self._frames.add(frame)
            name = module.removeprefix(PREFIX)
            if self.stays[-1:] != [name]:
                self.stays.append(name)
