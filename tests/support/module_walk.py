"""Records our modules that work passes through: in order, or there and back in all threads."""

import asyncio
import re
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

PREFIX = "queuegate_server."
_WALK: Final = re.compile(
    r"^### (?P<title>[^\n]+)\n\n```text\n(?P<modules>.+?)```", re.MULTILINE | re.DOTALL
)
_GENERATED = "<string>"
"""The file of functions that `dataclass` generates. Nobody has to read these."""


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
        is_new = event == "call" and frame.f_code.co_filename != _GENERATED
        if not is_new or self._ended or frame in self._frames:
            return
        self._ended = module.partition(".")[0] == self._driver
        if module.startswith(PREFIX):
            self._frames.add(frame)
            name = module.removeprefix(PREFIX)
            if self.stays[-1:] != [name]:
                self.stays.append(name)


class ModulesPassed:
    """Records the modules whose functions run, in this thread and all threads that start later.

    Time plays no part, except that a busy machine may change the order of calls in several threads.
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        """The modules that ran while recording, without the package's name, in the order in which
        they were entered first.
        """
        self._is_recording = False

    def __enter__(self) -> Self:
        self._before = sys.getprofile(), threading.getprofile()
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        of_thread, of_threads = self._before
        sys.setprofile(of_thread)
        threading.setprofile(of_threads)

    @contextmanager
    def recording(self) -> Iterator[dict[str, None]]:
        """Record the modules that run in the block; yield their names."""
        self.names = {}
        self._is_recording = True
        try:
            yield self.names
        finally:
            self._is_recording = False

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_recording or event != "call":
            return
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(PREFIX) and frame.f_code.co_filename != _GENERATED:
            self.names.setdefault(module.removeprefix(PREFIX))


def walk_in_architecture(title: str) -> list[str]:
    """Return the modules that ARCHITECTURE lists for a walk, each at the beginning of a line."""
    text = Path("ARCHITECTURE.md").read_text(encoding="utf-8")
    walks = {found["title"]: found["modules"] for found in _WALK.finditer(text)}
    return [line.split()[0] for line in walks[title].splitlines()]
