"""Gates for tests: both kinds behind one interface."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import queuegate
from tests.support.eventually import eventually


class LoopGate:
    """A `queuegate.aio.Gate` on a private event loop, with blocking methods."""

    def __init__(self, address: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._gate = self._run(self._create(address, options))

    async def _create(self, address: str, options: dict[str, Any]) -> queuegate.aio.Gate:
        return queuegate.aio.Gate(address, **options)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._gate, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute
        return lambda *args, **options: self._run(attribute(*args, **options))

    def close(self) -> None:
        self._run(self._gate.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


KINDS: dict[str, Any] = {"blocking": queuegate.Gate, "asyncio": LoopGate}


@contextmanager
def live_gate(address: str, kind: str = "blocking", **options: Any) -> Iterator[queuegate.Gate]:
    """Open a gate and yield it once it decides on its own. Close it at the end."""
    gate = KINDS[kind](address, **{"timeout": 60, **options})
    try:
        eventually(lambda: gate.state, queuegate.GateState.LIVE)
        yield gate
    finally:
        gate.close()


def decides_itself(gate: queuegate.Gate, user: str, queue: str, **question: Any) -> bool:
    """Ask, and return whether the gate decided without the server."""
    before = gate.decided
    gate.check(user, queue, **question)
    return gate.decided > before


def learn(gate: queuegate.Gate, user: str) -> None:
    """Ask about `root.work` until the gate decides about the user without the server."""
    eventually(lambda: decides_itself(gate, user, "root.work"), True)
