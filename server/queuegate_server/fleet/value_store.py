"""Batched reads and writes of values in Redis, with short timeouts and a circuit breaker."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from queuegate_server.fleet.connection import StoreConnection, StoreUnavailable
from queuegate_server.fleet.keys import MAC_BYTES
from queuegate_server.fleet.scripts import READ_VALUES
from queuegate_server.fleet.shared_groups import MAX_VALUE_BYTES, ValueUnavailable
from queuegate_server.runtime import pauses

_LOG = logging.getLogger("queuegate_server.fleet.value_store")

MAX_READS: Final = 4
"""The maximum number of concurrent batch reads, each on its own connection."""
READ_BATCH: Final = 64
MAX_READ_BYTES: Final = 1024 * 1024
"""The maximum size of a batch in bytes. Groups beyond it are looked up in the resolver. This limit
and READ_BATCH keep the event loop responsive."""
WRITE_BUDGET: Final = 5.0
WRITE_BATCH: Final = 128
MAX_UNWRITTEN: Final = 10_000
"""The maximum number of values waiting to be written. Additional values are not shared."""
MAX_FAILURES: Final = 3
"""The number of consecutive failed reads that opens the circuit."""
FREQUENT: Final = 5.0
"""If the circuit opens again within this many seconds, it stays open for `pauses.FLEET_VALUES`."""
CONNECT_BUDGET: Final = 5.0
PROBE_MILLISECONDS: Final = 1
"""The TTL of the key created to probe whether Redis permits writes."""


class BatchingStore:
    """A store of values in Redis. Not thread-safe."""

    def __init__(self, connection: StoreConnection, read_timeout: float) -> None:
        """Create a store with an open circuit. `read_timeout` applies to a batch, in seconds."""
        self.is_available = False
        """Whether the circuit is closed."""
        self.circuit_openings = 0
        self.failed_reads = 0
        """The number of batch reads that failed or timed out."""
        self.writes: Final = dict.fromkeys(("written", "outdated", "dropped", "failed"), 0)
        self._connection = connection
        self._read_timeout = read_timeout
        self._reads: _Batch = {}
        self._flush_scheduled = False
        self._unwritten: deque[tuple[str, Callable[[], bytes | None], float]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._reading: set[asyncio.Task[None]] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._opened_at = -math.inf
        """When the circuit last opened, on the event loop's clock."""

    def open(self) -> None:
        """Start connecting; the circuit closes once Redis responds."""
        self._connecting = asyncio.create_task(self._connect())

    async def get(self, key: str) -> bytes | None:
        """Return a key's value; None if it has none. Raises ValueUnavailable."""
        return await self._request("GET", key)

    async def lock(self, key: str, seconds: float) -> bool:
        """Lock a key for `seconds`; return False if already locked. Raises ValueUnavailable."""
        return await self._request("SET", key, int(seconds * 1000)) is not None

    def put(self, key: str, make: Callable[[], bytes | None], seconds: float) -> None:
        """Queue a value unless the circuit is open or the queue is full; see `ValueStore`."""
        if not self.is_available or len(self._unwritten) >= MAX_UNWRITTEN:
            self.writes["dropped"] += 1
            return
        self._unwritten.append((key, make, seconds))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Cancel reads and writes, and close the connection."""
        self.is_available = False
        tasks = {each for each in (self._connecting, self._writing) if each} | self._reading
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._give_up_reads()
        await self._connection.close()

    async def _request(self, *command: str | int) -> bytes | None:
        """Run a command in the next batch; return its result. Raises ValueUnavailable."""
        if not self.is_available:
            raise ValueUnavailable
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes | None] = loop.create_future()
        self._reads.setdefault(command, []).append(future)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            loop.call_soon(self._flush)
        return await future

    def _flush(self) -> None:
        """Send queued reads as long as there are free connections."""
        self._flush_scheduled = False
        while self._reads and len(self._reading) < MAX_READS:
            commands = [*islice(self._reads, READ_BATCH)]
            batch = {command: self._reads.pop(command) for command in commands}
            task = asyncio.create_task(self._read(batch))
            self._reading.add(task)
            task.add_done_callback(self._read_done)

    def _read_done(self, task: asyncio.Task[None]) -> None:
        self._reading.discard(task)
        if self._reads and not self._flush_scheduled:
            self._flush()

    async def _read(self, batch: "_Batch") -> None:
        try:
            values = await self._run([*batch], self._read_timeout)
        except StoreUnavailable as error:
            self.failed_reads += 1
            self._failures += 1
            _fail(batch)
            # Reads still in the queue have waited just as long, so they fail as well.
            self._give_up_reads()
            if self._failures >= MAX_FAILURES:
                self._open_circuit(error)
            return
        except BaseException:
            _fail(batch)
            raise
        self._failures = 0
        for command, value in values.items():
            for future in batch[command]:
                if not future.done():
                    future.set_result(value)

    async def _run(
        self, commands: "Sequence[_Command]", seconds: float
    ) -> "Mapping[_Command, bytes | None]":
        """Run reads and locks in one script; return the results. Raises StoreUnavailable."""
        ordered = sorted(commands, key=lambda command: command[0])  # the script reads first
        locks = [each[2] for each in ordered if each[0] == "SET"]
        keys = [str(each[1]) for each in ordered]
        args = (len(keys) - len(locks), MAC_BYTES + MAX_VALUE_BYTES, MAX_READ_BYTES, *locks)
        results = await self._connection.run_script(READ_VALUES, keys, args, seconds=seconds)
        return dict(zip(ordered, results, strict=True))

    def _give_up_reads(self) -> None:
        reads, self._reads = self._reads, {}
        _fail(reads)

    async def _write(self) -> None:
        try:
            while self._unwritten and self.is_available:
                commands: list[tuple[str | bytes | float, ...]] = []
                while self._unwritten and len(commands) < WRITE_BATCH:
                    key, make, seconds = self._unwritten.popleft()
                    value = make()
                    if value is None or seconds < 0.001:  # noqa: PLR2004 - a millisecond
                        self.writes["outdated"] += 1
                    else:
                        commands.append(("SET", key, value, "PX", int(seconds * 1000)))
                await self._send(commands)
        finally:
            self._writing = None
            self.writes["dropped"] += len(self._unwritten)
            self._unwritten.clear()

    async def _send(self, commands: list[tuple[str | bytes | float, ...]]) -> None:
        try:
            if commands:
                await self._connection.pipeline(commands, seconds=WRITE_BUDGET)
        except StoreUnavailable as error:
            self.writes["failed"] += len(commands)
            self._open_circuit(error)
        else:
            self.writes["written"] += len(commands)

    def _open_circuit(self, error: StoreUnavailable) -> None:
        """Stop reading and writing values until Redis responds again."""
        if not self.is_available:
            return
        _LOG.warning("group sharing is paused until Redis answers again: %s", error)
        self.is_available = False
        self.circuit_openings += 1
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        """Close the circuit once Redis responds on all connections."""
        was_logged = self.circuit_openings > 0
        if was_logged:
            # Reconnect, because a demoted master still responds but rejects writes.
            self._connection.reconnect()
            now = asyncio.get_running_loop().time()
            is_frequent, self._opened_at = now < self._opened_at + FREQUENT, now
            if is_frequent:
                await asyncio.sleep(pauses.FLEET_VALUES.first)
        while True:
            try:
                await self._connection.warm(MAX_READS + 1, seconds=CONNECT_BUDGET)
                if was_logged:
                    # Probe, because Redis may respond to PING but refuse reads or writes.
                    probe = f"{self._connection.tag}:probe"
                    commands = [("GET", probe), ("SET", probe, PROBE_MILLISECONDS)]
                    await self._run(commands, CONNECT_BUDGET)
            except StoreUnavailable as error:
                if not was_logged:
                    _LOG.warning("cannot read shared groups from Redis: %s", error)
                    was_logged = True
                self._connection.reconnect()
                await asyncio.sleep(pauses.FLEET_VALUES.first)
            else:
                break
        if was_logged:
            _LOG.warning("group sharing has resumed: Redis answers again")
        self._failures = 0
        self.is_available = True


_Command = tuple[str | int, ...]
"""A command in a batch: GET with a key, or SET with a key and a TTL in milliseconds."""
_Batch = dict[_Command, list[asyncio.Future[bytes | None]]]
"""The futures waiting for each command's result."""


def _fail(reads: _Batch) -> None:
    for futures in reads.values():
        for future in futures:
            if not future.done():
                future.set_exception(ValueUnavailable())
