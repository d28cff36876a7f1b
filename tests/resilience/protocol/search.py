"""Searches all states of a world up to its bounds, breadth first.

    python -m tests.resilience.protocol.search

visits those of two gates, a policy change, an invalidation and a restart: more than a million.
"""

import copyreg
import hashlib
import pickle
import sys
import time
from collections import deque
from typing import Any, NamedTuple

from google.protobuf.message import Message

from queuegate.v1 import sync_pb2
from tests.resilience.protocol.gate_model import Violation
from tests.resilience.protocol.world import Bounds, Parts, World


class Found(NamedTuple):
    """What a search found."""

    states: int
    trace: list[tuple[str, int]] | None
    """The shortest sequence of actions that ends in a violation; None if there is none."""


_PROTOCOL = pickle.HIGHEST_PROTOCOL
_MESSAGES: list[Message] = []
_NUMBERS: dict[tuple[type, bytes], int] = {}


def _message(number: int) -> Message:
    return _MESSAGES[number]


def _by_number(message: Message) -> tuple[Any, tuple[int]]:
    """Have a message pickled as its number: equal ones get the same."""
    key = (type(message), message.SerializeToString())
    number = _NUMBERS.setdefault(key, len(_MESSAGES))
    if number == len(_MESSAGES):
        _MESSAGES.append(message)
    return _message, (number,)


for _kind in sync_pb2.DESCRIPTOR.message_types_by_name:
    copyreg.pickle(getattr(sync_pb2, _kind), _by_number)


def search(
    bounds: Any, parts: type[Any] = Parts, max_states: int | None = None, world: type[Any] = World
) -> Found:
    """Visit the states that can be reached from the start, those with the shortest way first.

    Args:
        bounds: How often each thing may happen.
        parts: The classes of the protocol.
        max_states: When to stop; None: when all have been visited.
        world: The class of the states.
    """
    start = pickle.dumps(world(bounds, parts), _PROTOCOL)
    came_from: dict[bytes, _Step | None] = {_digest(start): None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for action in [*_world(state).actions(bounds)]:
            changed = _world(state)
            try:
                if not changed.act(*action, parts):
                    continue
            except Violation:
                return Found(len(came_from), _trace(came_from, _Step(_digest(state), action)))
            following = pickle.dumps(changed, _PROTOCOL)
            digest = _digest(following)
            if digest not in came_from:
                came_from[digest] = _Step(_digest(state), action)
                waiting.append(following)
        if max_states is not None and len(came_from) >= max_states:
            break
    return Found(len(came_from), None)


class _Step(NamedTuple):
    """How a state was reached: from another one, by an action."""

    state: bytes
    action: tuple[str, int]


def _digest(state: bytes) -> bytes:
    return hashlib.blake2b(state, digest_size=16).digest()


def _world(state: bytes) -> Any:
    return pickle.loads(state)  # noqa: S301 - this process has pickled it


def _trace(came_from: dict[bytes, _Step | None], last: _Step) -> list[tuple[str, int]]:
    trace = []
    step: _Step | None = last
    while step is not None:
        trace.append(step.action)
        step = came_from[step.state]
    return trace[::-1]


if __name__ == "__main__":
    begin = time.monotonic()
    found = search(Bounds(), max_states=int(sys.argv[1]) if len(sys.argv) > 1 else 1_500_000)
    print(f"{found.states} states in {time.monotonic() - begin:.0f} s: ", end="")
    if found.trace is None:
        print("no gate decides from a state that a barrier promised to be gone")
    else:
        print("a fault:", *found.trace, sep="\n")
    sys.exit(found.trace is not None)
