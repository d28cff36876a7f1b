"""A resolver with realistic behaviour that a test blocks, breaks and counts."""

import asyncio
from collections import Counter

from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome


class FakeDirectory:
    """Knows the users that a test names.

    Lookups wait while `hold` is clear; `broken` makes them fail, `error` makes them raise, and
    `answer` is the outcome of all of them.
    """

    def __init__(self, **users: tuple[str, ...]) -> None:
        self.users = dict(users)
        self.broken = False
        self.error: BaseException | None = None
        self.answer: Outcome | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.asked: Counter[str] = Counter()
        self.running = 0
        self.most_running = 0
        self.cancelled = 0
        self.opened = 0
        self.closed = 0

    async def open(self) -> None:
        self.opened += 1

    async def resolve(self, user: str) -> Outcome:
        self.asked[user] += 1
        # The answer is the one at the time of the question, however long it takes.
        outcome = self._outcome(user)
        error = self.error
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if error is not None:
            raise error
        return outcome

    async def close(self) -> None:
        self.closed += 1

    def _outcome(self, user: str) -> Outcome:
        if self.broken:
            return LookupFailure("the directory is down")
        if self.answer is not None:
            return self.answer
        groups = self.users.get(user)
        return NoSuchUser("not in the directory") if groups is None else KnownUser(groups)
