"""Clients that ask all the time, each on a connection of its own, and record what they see."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    status_pb2,
    user_groups_pb2,
    user_groups_pb2_grpc,
)
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.resilience.history import model
from tests.resilience.history.records import (
    Answer,
    Call,
    Decided,
    Groups,
    History,
    Question,
    Resolved,
)

DEADLINE = 20.0
MAX_PAUSE = 0.06
"""Seconds between the calls of a client, at the most."""
CALLS_OF_CONNECTION = 100
"""At the most; new connections reach workers that have just started."""
BATCH = 12
TOKENS = {name: f"qg_{name}_{'x' * 40}" for name in ("ci", "ops")}
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
_sessions = itertools.count(1)
_ACCESS = {"submit": access_pb2.ACCESS_TYPE_SUBMIT, "admin": access_pb2.ACCESS_TYPE_ADMIN}

Parse = Callable[[Any], dict[str, Any]]
"""Returns fields of a Call, given a response."""


class Client:
    """Asks one thing after the other on one connection."""

    def __init__(
        self, address: str, history: History, chance: random.Random, ended: asyncio.Event
    ) -> None:
        self._history = history
        self._ended = ended
        self._chance = chance
        self._session = next(_sessions)
        self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._access = access_pb2_grpc.AccessServiceStub(self._channel)
        self._groups = user_groups_pb2_grpc.UserGroupServiceStub(self._channel)
        self._policy = policy_pb2_grpc.PolicyServiceStub(self._channel)
        self._kinds = {
            self.check: 60,
            self.batch: 12,
            self.columns: 6,
            self.explain: 6,
            self.resolve: 6,
            self.get_policy: 6,
            self.list_queues: 4,
        }

    async def ask(self) -> None:
        """Ask some things, one after the other."""
        for _ in range(self._chance.randint(1, CALLS_OF_CONNECTION)):
            (kind,) = self._chance.choices(list(self._kinds), list(self._kinds.values()))
            if self._ended.is_set():
                return
            await kind()
            await asyncio.sleep(self._chance.uniform(0, MAX_PAUSE))

    async def close(self) -> None:
        await self._channel.close()

    async def check(self) -> None:
        caller = self._caller()
        request, question = self._question(caller)

        def parse(response: Any) -> dict[str, Any]:
            return {"seen": (_decided(question, response),)}

        await self._call("CheckQueueAccess", "check", caller, request, parse)

    async def batch(self) -> None:
        caller = self._caller()
        request, questions = self._batch(caller)

        def parse(response: Any) -> dict[str, Any]:
            return _results(questions, response)

        await self._call("BatchCheckQueueAccess", "check", caller, request, parse)

    async def columns(self) -> None:
        caller = self._caller()
        users = self._chance.sample(model.USERS, 4)
        queues = self._chance.sample(sorted(set(model.QUEUES)), 3)
        access = self._chance.choice(tuple(_ACCESS))
        pairs = list(itertools.product(range(len(users)), range(len(queues))))
        request = access_pb2.CheckQueueAccessColumnsRequest(
            access=_ACCESS[access],
            users=[UserGroupInformation(user=user) for user in users],
            queues=queues,
            user_indexes=[user for user, _ in pairs],
            queue_indexes=[queue for _, queue in pairs],
            with_decisions=True,
        )
        questions = [Question(users[user], queues[queue], access) for user, queue in pairs]

        def parse(response: Any) -> dict[str, Any]:
            decisions = list(response.decisions)
            return {
                "revision": response.policy_revision,
                "item_errors": tuple(_code(each.error) for each in response.errors),
                "seen": tuple(
                    _decided(question, decisions[place - 1])
                    for question, place in zip(questions, response.decision_indexes, strict=True)
                    if place
                ),
            }

        await self._call("CheckQueueAccessColumns", "check", caller, request, parse)

    async def explain(self) -> None:
        caller = self._caller()
        check, question = self._question(caller)
        request = access_pb2.ExplainQueueAccessRequest(
            user=check.user, queue=check.queue, access=check.access
        )

        def parse(response: Any) -> dict[str, Any]:
            decided = _decided(question, response.decision)
            origin = response.groups.origin
            shown = origin not in {
                access_pb2.GROUPS_ORIGIN_NOT_NEEDED,
                access_pb2.GROUPS_ORIGIN_REQUEST,
            }
            groups: Groups = tuple(response.groups.groups)
            if decided.answer.reason == "unknown_user":
                groups = None
            resolved = (Resolved(question.user, groups),) if shown else ()
            return {"seen": (decided, *resolved)}

        await self._call("ExplainQueueAccess", "read", caller, request, parse)

    async def resolve(self) -> None:
        user, fresh = self._chance.choice(model.USERS), self._chance.random() < 0.5
        request = user_groups_pb2.ResolveUserGroupsRequest(user=user, bypass_cache=fresh)

        def parse(response: Any) -> dict[str, Any]:
            groups: Groups = None
            if response.outcome == user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE:
                return {}
            if response.outcome == user_groups_pb2.RESOLVE_OUTCOME_RESOLVED:
                groups = tuple(response.user_group.groups)
            return {"seen": (Resolved(user, groups, fresh),)}

        await self._call("ResolveUserGroups", "read", self._caller(), request, parse)

    async def get_policy(self) -> None:
        request = policy_pb2.GetPolicyRequest()

        def parse(response: Any) -> dict[str, Any]:
            return {"revision": response.revision, "policy": response.checksum}

        await self._call("GetPolicy", "read", self._caller(), request, parse)

    async def list_queues(self) -> None:
        caller = self._caller()
        user = self._chance.choice(model.USERS)
        request = access_pb2.ListQueuesRequest(
            user=UserGroupInformation(user=user), access=access_pb2.ACCESS_TYPE_SUBMIT
        )

        def parse(response: Any) -> dict[str, Any]:
            return {"revision": response.policy_revision}

        await self._call("ListQueues", "read", caller, request, parse)

    def _caller(self) -> str:
        return self._chance.choice(("", "", "", *TOKENS))

    def _question(self, caller: str) -> tuple[access_pb2.CheckQueueAccessRequest, Question]:
        """Return a question. Groups that a caller with a token claims must not count."""
        chance = self._chance
        user, queue = chance.choice(model.USERS), chance.choice(model.QUEUES)
        access = "admin" if chance.random() < 0.1 else "submit"
        claimed = (model.CLAIMED,) if queue == model.CLAIM and chance.random() < 0.5 else ()
        request = access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=user, groups=claimed),
            queue=queue,
            access=_ACCESS[access],
        )
        return request, Question(user, queue, access, () if caller else claimed)

    def _batch(self, caller: str) -> tuple[access_pb2.BatchCheckQueueAccessRequest, list[Question]]:
        asked = [self._question(caller) for _ in range(self._chance.randint(1, BATCH))]
        batch = access_pb2.BatchCheckQueueAccessRequest(checks=[request for request, _ in asked])
        return batch, [question for _, question in asked]

    async def _call(self, method: str, role: str, caller: str, request: Any, parse: Parse) -> None:
        service = next(
            stub for stub in (self._access, self._groups, self._policy) if hasattr(stub, method)
        )
        start = time.monotonic()
        try:
            response = await getattr(service, method)(
                request, timeout=DEADLINE, metadata=_metadata(caller)
            )
        except grpc.aio.AioRpcError as error:
            self._record(method, role, caller, start, **_failure(error))
        else:
            self._record(method, role, caller, start, **parse(response))

    def _record(self, method: str, role: str, caller: str, start: float, **fields: Any) -> None:
        end, session = time.monotonic(), self._session
        call = Call(method, role, start, end, session=session, caller=caller, **fields)
        self._history.calls.append(call)


async def keep_asking(
    address: str,
    history: History,
    chance: random.Random,
    ended: asyncio.Event,
    clients: int,
) -> None:
    """Ask on some connections at once, and on others after them, until `ended` is set."""

    async def ask() -> None:
        while not ended.is_set():
            client = Client(address, history, chance, ended)
            await client.ask()
            await client.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(ask())


def _failure(error: grpc.aio.AioRpcError) -> dict[str, str]:
    detail = error.details() or ""
    # The client's own error for a connection that breaks while a call is sent.
    broken = detail == "Internal error from Core"
    return {"status": "UNAVAILABLE" if broken else error.code().name, "detail": detail}


def _metadata(caller: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKENS[caller]}"),) if caller else ()


def _decided(question: Question, response: access_pb2.CheckQueueAccessResponse) -> Decided:
    reason = access_pb2.Reason.Name(response.reason).removeprefix("REASON_").lower()
    answer = Answer(response.allowed, reason, response.matched_queue, response.matched_subject)
    return Decided(question, answer, response.policy_revision)


def _results(questions: Sequence[Question], response: Any) -> dict[str, Any]:
    results = list(zip(questions, response.results, strict=True))
    return {
        "seen": tuple(
            _decided(question, result.decision)
            for question, result in results
            if result.HasField("decision")
        ),
        "item_errors": tuple(
            _code(result.error) for _, result in results if not result.HasField("decision")
        ),
    }


def _code(status: status_pb2.Status) -> str:
    return next(code.name for code in grpc.StatusCode if code.value[0] == status.code)
