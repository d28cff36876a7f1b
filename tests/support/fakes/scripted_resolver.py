"""Resolver types from another distribution, for tests. Their answers can be scripted while they
run.

The server finds them through the entry points of a small installed distribution; see
`tests.support.fakes.scripted_directory`. This module runs inside the server process.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import (
    ChangeSink,
    KnownUser,
    LookupFailure,
    NoSuchUser,
    Outcome,
)


class ScriptedOptions(ResolverOptions):
    """The folder of the script `answers.json`. `asked` there gets a line per lookup, and once
    `released` exists there, no answer is held back any more.
    """

    folder: Path


class ScriptedResolver:
    """Gives the answers in the script at the time of the question."""

    Options = ScriptedOptions

    def __init__(self, options: ScriptedOptions) -> None:
        self._answers = options.folder / "answers.json"
        self._asked = options.folder / "asked"
        self._released = options.folder / "released"
        self._script: dict[str, Any] = {}
        self._read = (0, 0)

    async def open(self) -> None:
        """Do nothing."""

    async def resolve(self, user: str) -> Outcome:
        """Answer from the user's entry, or the entry `*`."""
        status = self._answers.stat()
        if self._read != (written := (status.st_ino, status.st_mtime_ns)):
            self._script, self._read = json.loads(self._answers.read_text()), written
        script = self._script
        answer = script[user] if user in script else script["*"]
        # Once the question is recorded, a later script no longer answers it.
        with self._asked.open("a") as asked:
            asked.write(f"{user}\n")
        await asyncio.sleep(answer.get("seconds", 0))
        while answer.get("held") and not self._released.exists():  # noqa: ASYNC110 - the test is another process
            await asyncio.sleep(0.01)
        if "groups" in answer:
            return KnownUser(tuple(answer["groups"]))
        if "unknown" in answer:
            return NoSuchUser(answer["unknown"])
        if "failed" in answer:
            return LookupFailure(answer["failed"])
        if "census" in answer:
            return KnownUser((f"tasks-{len(asyncio.all_tasks())}",))
        raise RuntimeError(answer["raises"])

    async def close(self) -> None:
        """Do nothing."""


class Followed(ScriptedResolver):
    """Also reports the users in the lines of `changes`, whose number is the position."""

    async def changes(self, sink: ChangeSink) -> None:
        """Follow the file."""
        file = self._answers.with_name("changes")
        file.touch()
        position = sink.position
        seen = len(file.read_text().splitlines()) if position is None else int(position)
        while True:
            users = file.read_text().splitlines()
            sink.invalidate(users[seen:])
            seen = len(users)
            sink.reached(str(seen).encode())
            await asyncio.sleep(0.02)


class Listing(ScriptedResolver):
    """Also lists the members of groups: the users in the script whose answers contain them."""

    async def members(self, listing: MemberListing) -> None:
        """List the users in the script."""
        script = json.loads(self._answers.read_text())
        for user, answer in script.items():
            for group in answer.get("groups", ()):
                if group in listing.groups:
                    listing.add(group, user)
        for name in listing.groups:
            listing.done(name)


class Unopenable:
    """Refuses to start."""

    Options = ResolverOptions

    def __init__(self, _options: ResolverOptions) -> None:
        """Need nothing."""

    async def open(self) -> None:
        """Fail like a misconfigured resolver."""
        raise RuntimeError("the licence has run out")

    async def resolve(self, user: str) -> Outcome:
        """Never called."""
        raise AssertionError(user)

    async def close(self) -> None:
        """Do nothing."""
