"""The policy is read again while calls are answered."""

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import policy_pb2, policy_pb2_grpc
from tests.support.servers.reloading_server import ALICE, BOB, ReloadingServer, reloading_alice


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[ReloadingServer]:
    with reloading_alice(tmp_path) as started:
        yield started


LAST_REVISION = 12
ANSWERS_EACH = 100


class Load:
    """Asks all the time, in every way. Odd revisions let alice in, even ones bob, and no
    answer may say otherwise.
    """

    def __init__(self, address: str) -> None:
        self._client = queuegate.aio.Client(address, timeout=60)
        self._channel = grpc.aio.insecure_channel(address)
        self._done = False
        self._answered = asyncio.Condition()
        self.answers: dict[int, int] = {}
        self.served = 1
        """The revision that is known to be served: no question asked from now on may be
        answered by an older one."""

    async def while_running(self, others: Awaitable[None]) -> None:
        """Ask until others have ended."""
        async with self._client, self._channel, asyncio.TaskGroup() as group:
            for name in ("alice", "bob", "alice", "bob"):
                group.create_task(self._checks(name))
            group.create_task(self._batches())
            await others
            self._done = True

    async def answers_of(self, revision: int, count: int) -> None:
        """Wait until a revision has decided `count` answers."""
        async with self._answered:
            await self._answered.wait_for(lambda: self.answers.get(revision, 0) >= count)

    async def _judge(self, name: str, since: int, *, allowed: bool, revision: int) -> None:
        assert revision >= since
        assert allowed == (name == ("bob", "alice")[revision % 2]), (name, revision)
        self.answers[revision] = self.answers.get(revision, 0) + 1
        async with self._answered:
            self._answered.notify_all()

    async def _checks(self, name: str) -> None:
        while not self._done:
            for ask in (self._check, self._explain):
                since = self.served
                decision = await ask(name)
                revision = decision.policy_revision
                await self._judge(name, since, allowed=decision.allowed, revision=revision)

    async def _check(self, name: str) -> queuegate.Decision:
        return await self._client.check(name, "root.work")

    async def _explain(self, name: str) -> queuegate.Decision:
        return (await self._client.explain(name, "root.work.x")).decision

    async def _batches(self) -> None:
        names = ["alice", "bob", *(f"user-{number}" for number in range(50))]
        questions = [queuegate.Check(name, "root.work") for name in names]
        while not self._done:
            since, revisions = self.served, set()
            for name, result in zip(names, await self._client.check_many(questions), strict=True):
                assert isinstance(result, queuegate.Decision)
                revision = result.policy_revision
                revisions.add(revision)
                await self._judge(name, since, allowed=result.allowed, revision=revision)
            assert len(revisions) == 1, "a batch is decided on one policy"


async def test_reloads_under_load_give_no_wrong_answer(reloading: ReloadingServer) -> None:
    load = Load(reloading.server.address)

    async def reloads() -> None:
        async with queuegate.aio.Client(reloading.server.address, timeout=60) as client:
            for revision in range(2, LAST_REVISION + 1):
                reloading.replace((BOB, ALICE)[revision % 2])
                assert (await client.reload()).revision == revision
                load.served = revision
                await load.answers_of(revision, ANSWERS_EACH)

    async with asyncio.timeout(150):
        await load.while_running(reloads())
    assert set(range(2, LAST_REVISION + 1)) <= load.answers.keys()
    assert load.answers.keys() <= set(range(1, LAST_REVISION + 1))


def large(queues: int, comment: int = 0) -> str:
    """Return a policy with a line for each of many queues."""
    return f"# {comment}\n{ALICE}" + "".join(
        f'          - {{name: q{number}, submitacl: "u{number},v{number} g{number}"}}\n'
        for number in range(queues)
    )


def test_a_large_policy_is_read_while_calls_are_answered(reloading: ReloadingServer) -> None:
    """Reading runs beside the event loop: nobody waits for it."""
    reloading.replace(large(20_000))
    stub = policy_pb2_grpc.PolicyServiceStub
    with grpc.insecure_channel(reloading.server.address) as channel:
        pending = stub(channel).ReloadPolicy.future(policy_pb2.ReloadPolicyRequest(), timeout=60)
        done = threading.Event()
        pending.add_done_callback(lambda _: done.set())
        answered = 0
        while not done.is_set():
            assert reloading.client.check("alice", "root.work", timeout=60).allowed
            answered += 1
        assert pending.result().succeeded
    assert answered > 20
    assert reloading.client.check("v19999", "root.q19999.x").allowed
    assert not reloading.client.check("v19999", "root.q19998.x").allowed


def test_replaced_policies_leave_no_memory_behind(reloading: ReloadingServer) -> None:
    sizes = []
    for number in range(12):
        reloading.replace(large(4_000, number))
        assert reloading.client.reload().revision == number + 2
        assert reloading.client.check(f"u{number}", f"root.q{number}").allowed
        sizes.append(reloading.server.memory())
    assert max(sizes[4:]) - max(sizes[:4]) < 8 << 20, sizes
