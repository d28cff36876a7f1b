"""Many calls of every kind at once: no wrong answer."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2_grpc
from tests.support.servers.busy import (
    FAILING,
    GROUPS,
    SEED,
    UNKNOWN,
    USERS,
    Setup,
    busy_server,
    groups_of,
)


class Mixed:
    """Random calls of every kind over one address, each answer judged."""

    def __init__(self, setup: Setup, address: str, seed: int) -> None:
        self._oracle = setup.oracle
        self._paths = setup.paths
        self._chance = random.Random(seed)
        self._client = queuegate.aio.Client(address, timeout=60, retry=queuegate.Retry(attempts=1))
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = access_pb2_grpc.AccessServiceStub(self._channel)
        self.judged = 0
        self.kinds: dict[str, int] = {}
        self._weights: dict[Callable[[], Awaitable[None]], int] = {
            self._check: 66,
            self._batch: 11,
            self._explain: 9,
            self._queues: 1,
            self._resolve: 10,
            self._invalidate: 3,
        }

    async def run(self, count: int) -> None:
        """Make `count` calls, 50 at once."""
        kinds = self._chance.choices(list(self._weights), list(self._weights.values()), k=count)
        calls = iter(kinds)

        async def work() -> None:
            for call in calls:
                await call()
                self.kinds[call.__name__] = self.kinds.get(call.__name__, 0) + 1

        async with self._client, self._channel, asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(work())

    def _question(self) -> queuegate.Check:
        chance = self._chance
        queue = chance.choice(self._paths)
        if chance.random() < 0.2:
            queue = chance.choice([queue + ".new.below", queue.upper().replace("ROOT", "root")])
        groups = chance.sample(GROUPS, 2) if chance.random() < 0.2 else None
        access: Any = chance.choice(["submit", "submit", "admin"])
        return queuegate.Check(chance.choice(USERS), queue, access=access, groups=groups)

    def _judge(self, question: queuegate.Check, answer: object) -> None:
        user, queue, access = question.user, question.queue, str(question.access)
        given = tuple(question.groups or ())
        self.judged += 1
        if user in FAILING and not given and self._oracle.needs_groups(queue, access, user):
            assert isinstance(answer, queuegate.GroupsUnavailable), (question, answer)
            return
        expected = self._oracle.allows(queue, access, user, given or groups_of(user))
        assert isinstance(answer, queuegate.Decision), (question, answer)
        assert answer.allowed == expected, (question, answer)
        if answer.reason == "unknown_user":
            assert user in UNKNOWN, (question, answer)

    async def _check(self) -> None:
        asked = self._question()
        answer: object
        try:
            answer = await self._client.check(
                asked.user, asked.queue, access=asked.access, groups=asked.groups
            )
        except queuegate.GroupsUnavailable as error:
            answer = error
        self._judge(asked, answer)

    async def _batch(self) -> None:
        asked = [self._question() for _ in range(20)]
        for question, result in zip(asked, await self._client.check_many(asked), strict=True):
            if isinstance(result, queuegate.CheckFailure):
                self._judge(question, result.error)
            else:
                self._judge(question, result)

    async def _explain(self) -> None:
        asked = self._question()
        try:
            answer = await self._client.explain(
                asked.user, asked.queue, access=asked.access, groups=asked.groups
            )
        except queuegate.GroupsUnavailable as error:
            self._judge(asked, error)
            return
        self._judge(asked, answer.decision)
        if answer.decision.allowed:
            assert answer.steps[-1].queue == answer.decision.matched_queue
            assert answer.steps[-1].matched_subject == answer.decision.matched_subject

    async def _queues(self) -> None:
        user = self._chance.choice(USERS[30:60])
        prefix = self._chance.choice(self._paths)
        expected = [
            path
            for path in sorted(self._paths)
            if (path + ".").startswith(prefix + ".")
            and self._oracle.allows(path, "submit", user, groups_of(user))
        ]
        assert await self._client.list_queues(user, prefix=prefix) == expected

    async def _resolve(self) -> None:
        user = self._chance.choice(USERS)
        answer = await self._client.resolve(user, bypass_cache=self._chance.random() < 0.2)
        if user in FAILING:
            assert (answer.outcome, answer.groups) == ("unavailable", ())
        elif user in UNKNOWN:
            assert (answer.outcome, answer.groups) == ("not_found", ())
        else:
            assert (answer.outcome, list(answer.groups)) == ("resolved", groups_of(user))

    async def _invalidate(self) -> None:
        everyone = self._chance.random() < 0.2
        users = [] if everyone else self._chance.sample(USERS, 5)
        result = await self._client.invalidate(users)
        assert 0 <= result.dropped <= (100 if everyone else 5)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with busy_server(tmp_path) as started:
        yield started


async def test_ten_thousand_mixed_calls(setup: Setup) -> None:
    mixed = [Mixed(setup, address, SEED + number) for number, address in enumerate(setup.addresses)]
    async with asyncio.timeout(150):
        await asyncio.gather(*(calls.run(5_000) for calls in mixed))
    for calls in mixed:
        assert sum(calls.kinds.values()) == 5_000
        assert len(calls.kinds) == 6
        assert calls.judged > 10_000
    assert not [entry for entry in setup.server.logs if entry["event"] == "unexpected error"]
