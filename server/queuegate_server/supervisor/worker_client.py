"""The worker's side: what it asks its supervisor, and what it is asked."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from queuegate_server.engine import NotReady
from queuegate_server.rpc.errors import NotConfirmed
from queuegate_server.supervisor.channel import Channel, ChannelError
from queuegate_server.supervisor.worker_spec import WorkerSpec

_LOG = logging.getLogger("queuegate_server.supervisor")
_SECONDS: Final = 5.0
"""How long the supervisor may take to answer by itself."""

Local = Callable[[bytes], Awaitable[bytes]]
"""A method of the contract, in this worker only."""


class WorkerClient:
    """One worker among several. Used from one event loop."""

    def __init__(self, place: WorkerSpec) -> None:
        """Take the worker's place."""
        self.place = place
        self.gone = asyncio.Event()
        """Set when the supervisor is gone, or wants this worker to end."""
        self.metrics: Callable[[], str] = str
        """Returns the metrics of this worker in Prometheus' text format."""
        self.readiness: Callable[[], Mapping[str, Any]] = dict
        """Returns what this worker has to say of its readiness, as JSON."""
        self.hangup: Callable[[], Awaitable[object]] | None = None
        """Does what SIGHUP asks for."""
        self._methods: dict[str, Local] = {}
        self._channel = Channel(
            {
                "alive": self._alive,
                "call": self._call,
                "hangup": self._hang_up,
                "metrics": self._metrics,
                "readiness": self._readiness,
                "stop": self._stop,
            }
        )
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to answer. Raises OSError if there is no supervisor."""
        await self._channel.open(self.place.channel_end())
        self._reading = asyncio.create_task(self._channel.run())
        self._reading.add_done_callback(lambda _: self.gone.set())

    async def ready(self, lines: list[str]) -> None:
        """Tell that this worker serves, and what to print once all do."""
        try:
            await self._channel.ask("ready", lines, seconds=_SECONDS)
        except ChannelError:
            self.gone.set()

    async def revision(self, checksum: str, current: int) -> int:
        """Return the number that a policy has in all workers."""
        try:
            value = {"checksum": checksum, "current": current}
            return int(await self._channel.ask("revision", value, seconds=_SECONDS))
        except ChannelError as error:
            _LOG.warning("the revision is not agreed on", extra={"error": str(error)})
            return current + 1

    def everywhere(
        self,
        name: str,
        local: Local,
        merge: Callable[[bytes, list[bytes]], bytes],
        *,
        seconds: float,
    ) -> Local:
        """Return a method that runs in all workers, and answers when all have.

        `merge` gets this worker's answer and those of the others. Raises NotConfirmed
        if one of the others fails, or takes longer than `seconds`.
        """
        self._methods[name] = local

        async def called(data: bytes) -> bytes:
            mine = await local(data)
            value = {
                "method": name,
                "data": base64.b64encode(data).decode(),
                "seconds": seconds,
            }
            try:
                # The supervisor answers by itself after `seconds`.
                others = await self._channel.ask("everywhere", value, seconds=seconds + _SECONDS)
            except ChannelError as error:
                raise NotConfirmed(str(error)) from error
            return merge(mine, [base64.b64decode(answer) for answer in others])

        return called

    async def close(self) -> None:
        """Close the channel; the supervisor then waits for the end of this process."""
        self._channel.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _alive(self, _value: Any) -> None:
        """Answer at all: whoever hangs does not."""

    async def _call(self, value: Any) -> str:
        try:
            answer = await self._methods[value["method"]](base64.b64decode(value["data"]))
        except NotReady:
            return ""  # it has nothing yet that would have to change
        except Exception as error:
            raise ChannelError(f"{type(error).__name__}: {error}") from error
        return base64.b64encode(answer).decode()

    async def _hang_up(self, _value: Any) -> None:
        if self.hangup is not None:
            await self.hangup()

    async def _metrics(self, _value: Any) -> str:
        return self.metrics()

    async def _readiness(self, _value: Any) -> Mapping[str, Any]:
        return self.readiness()

    async def _stop(self, _value: Any) -> None:
        self.gone.set()
