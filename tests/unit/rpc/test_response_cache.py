"""Kept answers never outlive a reload, an invalidation, a refresh, an eviction or an expiry."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from queuegate.policy.acl import parse
from queuegate.policy.decision import NO_MATCH, UNKNOWN_USER
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.v1 import access_pb2, user_group_information_pb2
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine, GroupsUnavailable, ServedPartition, Snapshot, Verdict
from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.reloads import SnapshotListener
from queuegate_server.rpc import messages, response_cache, validation
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.response_cache import ResponseCache
from queuegate_server.throttling.byte_budget import ByteBudget
from tests.support.batch_results import with_errors

USERS = ("alice", "bob", "carol", "dave")
QUEUES = ("root", "root.a.x", "root.b")
GROUP_LISTS = st.sampled_from([("dev",), ("ops",), ("dev", "ops"), ()])
ACLS = st.sampled_from(["", "*", "alice", " dev", " ops", "bob dev", " dev,ops"])
OPTIONS = CacheOptions(
    positive_ttl=100, negative_ttl=30, failure_ttl=5, max_stale=200, max_entries=3
)


GENERATION = 7


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Directory:
    """A resolver whose answers the test changes."""

    def __init__(self) -> None:
        self.users: dict[str, tuple[str, ...]] = {}
        self.is_down = False

    async def open(self) -> None:
        pass

    async def resolve(self, user: str) -> Outcome:
        if self.is_down:
            return LookupFailure("down")
        groups = self.users.get(user)
        return NoSuchUser("unknown") if groups is None else KnownUser(groups)

    async def close(self) -> None:
        pass


def request(user: str, queue: str, groups: tuple[str, ...] = ()) -> bytes:
    information = user_group_information_pb2.UserGroupInformation(user=user, groups=groups)
    return access_pb2.CheckQueueAccessRequest(
        user=information, queue=queue, access=access_pb2.ACCESS_TYPE_SUBMIT
    ).SerializeToString()


def batch(*items: bytes) -> bytes:
    parsed = [access_pb2.CheckQueueAccessRequest.FromString(item) for item in items]
    return access_pb2.BatchCheckQueueAccessRequest(checks=parsed).SerializeToString()


class CachedResponses(RuleBasedStateMachine):
    """Asks through the cache and beside it; whatever happens between, both answers agree."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.directory = Directory()
        options = ResolverOptions()
        shared = GuardedResolver("test", self.directory, options, clock=self.clock)
        shared.breaker.max_failures = 10_000
        cache = GroupCache(OPTIONS, self.clock, self.clock, lambda: 0.5)
        self.groups = GroupResolver(shared, cache)
        self.engine = Engine(self.clock)
        self.access = AccessServicer(
            self.engine,
            CallLog(DecisionLog(), self.clock),
            LongCallQueue(self.clock, 60, {}, ByteBudget(1 << 20)),
            clock=self.clock,
        )
        # Generations so small that they change while it asks.
        self.cache = ResponseCache(self.clock, GENERATION)
        self.engine.on_swap(SnapshotListener.RESPONSES, self.cache.reset)
        self.access._cache = self.cache
        self.revision = 0
        self.serve("", "*", "bob dev")

    def teardown(self) -> None:
        self.loop.run_until_complete(self.groups.close())
        self.loop.close()

    @rule(root=ACLS, a=ACLS, b=ACLS)
    def serve(self, root: str, a: str, b: str) -> None:
        self.revision += 1
        queues = [
            QueueAcls(path, parse(text), parse(""))
            for path, text in (("root", root), ("root.a", a), ("root.b", b))
        ]
        partition = build_partition("default", "", queues)
        policy = Policy({"default": partition}, revision=self.revision)
        served = {"default": ServedPartition(partition, self.groups, trust_provided_groups=True)}
        self.engine.serve(Snapshot(policy, served, 0.0))

    @rule(user=st.sampled_from(USERS), groups=st.one_of(st.none(), GROUP_LISTS))
    def change_directory(self, user: str, groups: tuple[str, ...] | None) -> None:
        self.directory.users.pop(user, None)
        if groups is not None:
            self.directory.users[user] = groups

    @rule(is_down=st.booleans())
    def break_directory(self, is_down: bool) -> None:
        self.directory.is_down = is_down

    @rule(seconds=st.sampled_from([1, 4, 20, 50, 90, 150, 400]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(users=st.lists(st.sampled_from(USERS), max_size=2))
    def invalidate(self, users: list[str]) -> None:
        if users:
            self.groups.invalidate(users)
        else:
            self.run(self.groups.invalidate_all())

    @rule(user=st.sampled_from(USERS))
    def resolve_anew(self, user: str) -> None:
        self.run(self.groups.resolve(user, bypass_cache=True))

    @rule(groups=st.sampled_from([(), (), ("ops",)]), alone=st.booleans())
    def ask(self, groups: tuple[str, ...], alone: bool) -> None:
        for user in USERS:
            for queue in QUEUES:
                data = request(user, queue, groups)
                self.run(self._ask_alone(data) if alone else self._ask_in_batch(data))

    @rule(groups=st.sampled_from([(), (), ("ops",)]))
    def ask_by_columns(self, groups: tuple[str, ...]) -> None:
        # One user at a time: asking for another one may evict what the answer came from.
        for user in USERS:
            # A refresh that is due ends first: within the call it might end before `_beside` asks.
            self.run(self._refresh_if_due(user))
            self.run(self._ask_by_columns(user, groups))

    async def _refresh_if_due(self, user: str) -> None:
        self.groups.known(user)

    async def _ask_by_columns(self, user: str, groups: tuple[str, ...]) -> None:
        data = access_pb2.CheckQueueAccessColumnsRequest(
            access=access_pb2.ACCESS_TYPE_SUBMIT,
            users=[user_group_information_pb2.UserGroupInformation(user=user, groups=groups)],
            queues=QUEUES,
            user_indexes=[0] * len(QUEUES),
            queue_indexes=range(len(QUEUES)),
            with_decisions=True,
        ).SerializeToString()
        answer = access_pb2.CheckQueueAccessColumnsResponse.FromString(
            await self.access.CheckQueueAccessColumns(data, trusted=True)
        )
        failed = {number for error in answer.errors for number in error.questions}
        for number, queue in enumerate(QUEUES):
            beside = await self._beside(request(user, queue, groups))
            allowed = answer.allowed[0] >> number & 1
            place = answer.decision_indexes[number]
            if isinstance(beside, bytes):
                assert answer.decisions[place - 1].SerializeToString() == beside
                assert (bool(place), allowed) == (True, answer.decisions[place - 1].allowed)
            else:
                assert (place, allowed) == (0, 0)
                assert number in failed

    def run(self, work: object) -> None:
        async def settled() -> None:
            await work  # type: ignore[misc]
            for _ in range(10):  # what was started in the background comes to its end
                await asyncio.sleep(0)

        self.loop.run_until_complete(settled())

    async def _ask_in_batch(self, data: bytes) -> None:
        answer = await self.access.BatchCheckQueueAccess(batch(data, data), trusted=True)
        results = access_pb2.BatchCheckQueueAccessResponse.FromString(answer).results
        first, second = with_errors(results)
        assert first == second
        beside = await self._beside(data)
        if isinstance(beside, bytes):
            assert first.decision.SerializeToString() == beside
            assert self.cached(data) in (None, beside)
        else:
            assert first.error.code == 14
            assert self.cached(data) is None

    async def _ask_alone(self, data: bytes) -> None:
        try:
            answer = await self.access.CheckQueueAccess(data, trusted=True)
        except GroupsUnavailable:
            assert not isinstance(await self._beside(data), bytes)
        else:
            assert answer == await self._beside(data)

    def cached(self, data: bytes) -> bytes | None:
        """Return the response that the cache gives now."""
        found = self.cache.get(self.engine.snapshot, data, trusted=True)
        return None if found is None else found.response

    async def _beside(self, data: bytes) -> bytes | GroupsUnavailable:
        """Decide without the cache."""
        snapshot = self.engine.snapshot
        request = access_pb2.CheckQueueAccessRequest.FromString(data)
        query = validation.query(request, snapshot, trusted=True)
        try:
            verdict = self.engine.check(query) or await self.engine.resolve_and_check(query)
        except GroupsUnavailable as error:
            return error
        message = messages.decision_message(
            access_pb2.CheckQueueAccessResponse,
            verdict.decision,
            verdict.evaluated_queue,
            snapshot.policy.revision,
        )
        return message.SerializeToString()

    @invariant()
    def nothing_is_kept_beyond_its_bounds(self) -> None:
        for generations in self.cache._generations.values():
            assert max(map(len, generations)) <= GENERATION


TestCachedResponses = CachedResponses.TestCase
TestCachedResponses.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


@pytest.fixture
def machine() -> Iterator[CachedResponses]:
    made = CachedResponses()
    made.directory.users["carol"] = ("dev",)
    yield made
    made.teardown()


def test_answers_are_kept_at_all(machine: CachedResponses) -> None:
    for data in (request("carol", "root.b"), request("bob", "root.b")):
        assert machine.cached(data) is None
        answer = machine.loop.run_until_complete(
            machine.access.CheckQueueAccess(data, trusted=True)
        )
        assert machine.cached(data) == answer


def test_long_requests_are_not_kept(machine: CachedResponses) -> None:
    data = request("carol", "root.b", tuple(f"group{number}" for number in range(100)))
    machine.loop.run_until_complete(machine.access.CheckQueueAccess(data, trusted=True))
    assert machine.cached(data) is None


def test_two_generations_are_kept(machine: CachedResponses) -> None:
    often = request("often", "root.b", ("x",))
    for number in range(20):
        data = request(f"u{number}", "root.b", ("x",))
        machine.loop.run_until_complete(machine.access.CheckQueueAccess(data, trusted=True))
        machine.loop.run_until_complete(machine.access.CheckQueueAccess(often, trusted=True))
        assert machine.cached(data) is not None
        assert machine.cached(often) is not None
        machine.nothing_is_kept_beyond_its_bounds()
    assert machine.cached(request("u0", "root.b", ("x",))) is None


@pytest.mark.parametrize("change", ["reload", "expiry"])
async def test_responses_that_end_during_a_pause_are_not_used(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_cache, "CHUNK", 1)
    clock = Clock()
    old, new = Snapshot(Policy({}), {}, 0.0), Snapshot(Policy({}), {}, 0.0)
    cache = ResponseCache(clock)
    cache.reset(old)
    entry = CacheEntry("carol", KnownUser(("dev",)), fresh_until=clock.now + 10)
    for data in (b"1", b"2"):
        cache.put(old, data, Verdict(NO_MATCH, entry), trusted=True)

    async def pause() -> None:
        if change == "expiry":
            clock.now += 20
            return
        cache.reset(new)
        cache.put(new, b"2", Verdict(UNKNOWN_USER, None), trusted=True)

    first, second = await cache.get_most(old, [b"1", b"2"], pause, trusted=True)
    assert first is not None
    assert second is None
