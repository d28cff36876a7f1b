"""Decides pairs of users and queues of a request with columns, each different pair once."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from queuegate.policy.tree import Partition
from queuegate.v1 import access_pb2
from queuegate_server.engine import Engine
from queuegate_server.questions import Query, Verdict
from queuegate_server.rpc import convert
from queuegate_server.rpc.admission_queue import Slot
from queuegate_server.rpc.errors import to_status
from queuegate_server.snapshot import Snapshot, UnknownPartition

_DECIDED_AT_ONCE: Final = 100
_LOOKED_UP_AT_ONCE: Final = 16

Request = access_pb2.CheckQueueAccessColumnsRequest
Pair = tuple[int, int]


class Failed(NamedTuple):
    """Why a pair could not be decided."""

    status: bytes
    """A ColumnsError without questions."""
    error: Exception


Outcomes = Mapping[Pair, Verdict | Failed]
"""By positions of user and queue."""


class Work:
    """The pairs of one request that have to be decided. Used from one event loop."""

    def __init__(self, engine: Engine, snapshot: Snapshot, request: Request) -> None:
        """Take the engine, the snapshot to decide on, and the request."""
        self._engine = engine
        self._snapshot = snapshot
        self._request = request
        self._access = convert.ACCESS.get(request.access)
        faults: convert.Violations = []
        convert.check_partition(request.partition, faults)
        try:
            self._served = None if faults else snapshot.find(request.partition)
        except UnknownPartition:
            self._served = None
        partition = None if self._served is None else self._served.partition
        self._users = [_user(request, place, partition) for place in range(len(request.users))]
        self._paths = [self._path(queue) for queue in request.queues]

    async def decide(self, pairs: Sequence[Pair], turn: Slot) -> Outcomes:
        """Decide each different pair, looking up groups where need be, which ends the turn."""
        outcomes: dict[Pair, Verdict | Failed] = {}
        waiting = []
        for count, pair in enumerate(dict.fromkeys(pairs), start=1):
            try:
                verdict = self._now(pair)
            except Exception as error:
                outcomes[pair] = _failed(error)
            else:
                if verdict is None:
                    waiting.append(pair)
                else:
                    outcomes[pair] = verdict
            if count % _DECIDED_AT_ONCE == 0:
                await turn.pause()
        if waiting:
            turn.end()
            await self._look_up(iter(waiting), outcomes)
        return outcomes

    def _now(self, pair: Pair) -> Verdict | None:
        user, path = self._users[pair[0]], self._paths[pair[1]]
        served, access = self._served, self._access
        if user is None or path is None or served is None or access is None:
            return self._engine.check_now(self._snapshot, self._question(pair))
        known = self._engine.check_known(served, path, access, *user)
        return None if known is None else Verdict(*known)

    async def _look_up(
        self, waiting: Iterator[Pair], outcomes: dict[Pair, Verdict | Failed]
    ) -> None:
        async def work() -> None:
            for pair in waiting:
                try:
                    # Another pair of the same user may have been looked up by now.
                    outcomes[pair] = self._now(pair) or await self._engine.check(
                        self._snapshot, self._question(pair)
                    )
                except Exception as error:
                    outcomes[pair] = _failed(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(_LOOKED_UP_AT_ONCE):
                group.create_task(work())

    def _question(self, pair: Pair) -> Query:
        """Return the question of a pair; raise InvalidRequest as a single check does."""
        request = self._request
        check = access_pb2.CheckQueueAccessRequest(
            user=request.users[pair[0]],
            partition=request.partition,
            queue=request.queues[pair[1]],
            access=request.access,
        )
        return convert.question(check, self._snapshot)

    def _path(self, queue: str) -> str | None:
        if self._served is None:
            return None
        faults: convert.Violations = []
        path = convert.queue_field("queue", queue, self._served.partition, faults)
        return None if faults else path


def _user(
    request: Request, place: int, partition: Partition | None
) -> tuple[str, Sequence[str]] | None:
    faults: convert.Violations = []
    user = convert.who(request.users[place], partition, faults)
    return None if faults else user


def _failed(error: Exception) -> Failed:
    status = access_pb2.ColumnsError(error=to_status(error)).SerializeToString()
    # Its traceback leads to the outcomes, of which it becomes a part: garbage that only the
    # collector could free, and that looks after old objects seldom.
    return Failed(status, error.with_traceback(None))
