"""The worker's end of the channel, and the RPC methods broadcast to all workers."""

import asyncio
import base64
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from queuegate.v1 import policy_pb2, user_groups_pb2
from queuegate_server.engine import NotReady
from queuegate_server.rpc.errors import NotConfirmed
from queuegate_server.supervisor.channel import Channel, ChannelError, Handler, WorkerSpec
from queuegate_server.sync.session import CLOCK_MARGIN, LEASE

_LOG = logging.getLogger("queuegate_server.supervisor")
SUPERVISOR_TIMEOUT: Final = 5.0
"""The timeout, in seconds, for requests that the supervisor handles without other workers."""
ENDED_WORKER: Final = "callers of a worker that has exited"

Method = Callable[[bytes], Awaitable[bytes]]
"""An RPC method that takes and returns serialized messages."""
ResponseMerger = Callable[[bytes, bytes, list[bytes]], Awaitable[bytes]]
"""Merges this worker's response with the other workers' responses, given the request."""


class WorkerClient:
    """A worker's client for its supervisor."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.stopping = asyncio.Event()
        """Set when the supervisor stops this worker or exits."""
        self._methods: dict[str, Method] = {}
        self._broadcasts: set[asyncio.Task[Any]] = set()
        self._handlers: dict[str, Handler] = {
            "call": self._on_call,
            "ping": _handler(lambda: None),
            "stop": _handler(self.stopping.set),
        }
        self._channel = Channel(self._handlers, on_close=self.stopping.set)

    async def open(
        self,
        *,
        reload: Callable[[], Awaitable[None]],
        metrics: Callable[[], str],
        readiness: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Connect to the supervisor and start handling its requests.

        `reload` reloads the configuration; `metrics` returns Prometheus text, and `readiness`
        returns JSON.
        """
        self._handlers |= {
            "metrics": _handler(metrics),
            "readiness": _handler(readiness),
            "reload": _handler(reload),
        }
        await self._channel.open(self.spec.channel.dup())

    async def ready(self, lines: list[str]) -> None:
        """Report that this worker is serving. `lines` are printed once all workers are serving."""
        try:
            await self._channel.request("ready", lines, seconds=SUPERVISOR_TIMEOUT)
        except ChannelError:
            self.stopping.set()

    async def revision(self, checksum: str, current: int) -> int:
        """Get a policy's revision from the supervisor, so that it is the same in all workers."""
        try:
            value = {"checksum": checksum, "current": current}
            return int(await self._channel.request("revision", value, seconds=SUPERVISOR_TIMEOUT))
        except ChannelError as error:
            _LOG.warning("the workers do not agree on the revision", extra={"error": str(error)})
            return current + 1

    def broadcast(
        self, name: str, method: Method, merge: ResponseMerger, *, timeout: float
    ) -> Method:
        """Return an RPC method that runs in all workers and raises NotConfirmed if one fails.

        Args:
            name: The method's name.
            method: Runs the method in this worker.
            merge: Merges the responses. A worker that has exited or is not serving yet has an empty
                response.
            timeout: How long the other workers may take to respond, in seconds.
        """
        self._methods[name] = method

        async def broadcasting(request: bytes) -> bytes:
            value = {"method": name, "data": base64.b64encode(request).decode(), "seconds": timeout}
            # Run the method in the other workers concurrently, even if the caller disconnects. The
            # supervisor waits for them for `timeout` seconds.
            task = asyncio.create_task(
                self._channel.request("broadcast", value, seconds=timeout + SUPERVISOR_TIMEOUT)
            )
            self._broadcasts.add(task)
            task.add_done_callback(self._on_done)
            own = await method(request)
            try:
                others = await asyncio.shield(task)
            except ChannelError as error:
                raise NotConfirmed(str(error)) from error
            return await merge(request, own, [base64.b64decode(response) for response in others])

        return broadcasting

    def broadcast_methods(self, servicer: object) -> object:
        """Return a servicer that broadcasts the methods in _BROADCAST to all workers."""
        methods = {
            name: self.broadcast(name, getattr(servicer, name), merge, timeout=timeout)
            for name, (merge, timeout) in _BROADCAST.items()
            if hasattr(servicer, name)
        }
        return _BroadcastServicer(servicer, methods)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._broadcasts.discard(task)
        if not task.cancelled():
            task.exception()  # mark as retrieved, because the caller may be gone

    def close(self) -> None:
        """Close the channel. The supervisor then waits for the process to exit."""
        self._channel.close()

    async def _on_call(self, value: Any) -> str:
        try:
            response = await self._methods[value["method"]](base64.b64decode(value["data"]))
        except NotReady:
            return ""  # nothing to invalidate or reload yet
        except Exception as error:
            raise ChannelError(f"{type(error).__name__}: {error}") from error
        return base64.b64encode(response).decode()


@dataclass(frozen=True, slots=True)
class _BroadcastServicer:
    """A servicer with some methods replaced by their broadcast versions."""

    _servicer: object
    _methods: Mapping[str, Method]

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._servicer, name)


def _handler(work: Callable[[], Any]) -> Handler:
    async def handle(_value: Any) -> Any:
        response = work()
        return await response if inspect.isawaitable(response) else response

    return handle


async def _sum_dropped(request: bytes, own: bytes, others: list[bytes]) -> bytes:
    parse = user_groups_pb2.InvalidateUserGroupsResponse.FromString
    merged = parse(own)
    for response in map(parse, others):
        merged.dropped += response.dropped
        merged.waited_out.extend(response.waited_out)
        merged.stale_gates.extend(response.stale_gates)
    if user_groups_pb2.InvalidateUserGroupsRequest.FromString(request).wait:
        merged.waited_out.extend(await _wait_for_ended(others))
    return merged.SerializeToString()


async def _same_policy(request: bytes, own: bytes, others: list[bytes]) -> bytes:
    """Merge the responses. Raises NotConfirmed unless all workers loaded the same policy."""
    parse = policy_pb2.ReloadPolicyResponse.FromString
    merged = parse(own)
    for response in map(parse, filter(None, others)):
        if (response.succeeded, response.revision) != (merged.succeeded, merged.revision):
            raise NotConfirmed("the workers read different policies: the file is being changed")
        merged.waited_out.extend(response.waited_out)
        merged.stale_gates.extend(response.stale_gates)
    if policy_pb2.ReloadPolicyRequest.FromString(request).wait:
        merged.waited_out.extend(await _wait_for_ended(others))
    return merged.SerializeToString()


async def _wait_for_ended(others: list[bytes]) -> list[str]:
    """Wait until the leases of exited workers have expired; return entries for `waited_out`."""
    if all(others):
        return []
    await asyncio.sleep(LEASE + CLOCK_MARGIN)
    return [ENDED_WORKER]


_BROADCAST: Final = {
    "InvalidateUserGroups": (_sum_dropped, 10.0),
    "ReloadPolicy": (_same_policy, 60.0),
}
"""RPC methods run in all workers, with their merge function and the workers' timeout in seconds."""
