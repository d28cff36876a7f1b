"""The supervisor of several workers that serve on the same ports.

The supervisor starts the workers, replaces workers that exit or hang, and forwards signals. It
relays calls that all workers must execute, and assigns policy revisions. It handles no calls itself
and does not import gRPC, so it stays small and no call can affect it.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from cachetools import LRUCache

from queuegate_server.runtime import pauses
from queuegate_server.runtime.event_loop import handle_signals, run_on
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.tcp import reserve_tcp
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import SettingsReader, with_changes
from queuegate_server.supervisor.channel import ChannelError, spec_message
from queuegate_server.supervisor.process import WorkerProcess
from queuegate_server.sync.change_log import SERVER_BYTES

_LOG = logging.getLogger("queuegate_server.supervisor")
STEADY_SECONDS: Final = 10.0
"""A worker that was ready and ran for at least this many seconds is replaced without a pause."""
WORKER_TIMEOUT_SECONDS: Final = 30.0
"""A worker that does not respond for this long is killed and replaced. The longest pause of a
working one, for a large policy on a busy machine, is a few seconds; a shorter limit would kill
it."""
RELOAD_TIMEOUT: Final = 60.0
EXTRA_STOP_SECONDS: Final = 10.0
"""How long a worker may take to exit after draining, in seconds."""
END_SECONDS: Final = 1.0
"""How long a process may take to exit after its channel has closed, in seconds."""
MAX_REVISIONS: Final = 64
"""The maximum number of policies whose revisions are kept."""


class WorkerError(Exception):
    """A worker failed at startup. The text is the worker's message, empty if the worker crashed."""


class Revisions:
    """Assigns revisions to policies by checksum. Within each worker, revisions only increase."""

    def __init__(self) -> None:
        self._latest = 0
        self._by_checksum: LRUCache[str, int] = LRUCache(MAX_REVISIONS)

    def revision(self, checksum: str, current: int) -> int:
        """Return the revision of a policy for a worker that serves the revision `current`.

        The policy keeps its revision if this worker serves it or another worker has just loaded it.
        It gets a new revision if a different policy has been served since. A starting worker passes
        0; it may be the first to load the policy.
        """
        known = self._by_checksum.get(checksum, 0)
        if known and known >= current and (current or known == self._latest):
            return known
        self._latest = max(self._latest, current) + 1
        self._by_checksum[checksum] = self._latest
        return self._latest


class Supervisor:
    """The supervisor of a service's workers."""

    def __init__(
        self,
        settings: Settings,
        *,
        content: bytes | None,
        announce: Callable[[Sequence[str]], None],
        read_settings: Callable[[], tuple[Settings, bytes | None]],
        notifier: Notifier,
    ) -> None:
        """Create a supervisor from the settings at startup.

        `content` is the settings file's content, if there is a file; `announce` prints lines as
        soon as all workers are serving; `read_settings` rereads the settings and their file.
        """
        self.size: Final = settings.workers
        """The configured number of workers."""
        self._settings = settings
        self._initial_content = content
        self._current_content: bytes | None = None
        self._reloaded = False
        self._announce = announce
        self._reader = SettingsReader(read_settings)
        self._notifier = notifier
        self._server = os.urandom(SERVER_BYTES)
        self._revisions = Revisions()
        self._workers: dict[int, WorkerProcess] = {}
        self._ports: tuple[int, ...] = ()
        self.all_served = False
        """Whether all workers have been serving at the same time."""
        self.stop = asyncio.Event()
        """Set once the workers are draining or have exited."""
        self._reload = asyncio.Event()
        self.replaced = {"ended": 0, "silent": 0}
        """The number of replaced workers, by reason."""

    @property
    def workers(self) -> list[WorkerProcess]:
        """The running workers, by index. Some may not be serving yet."""
        return [self._workers[index] for index in sorted(self._workers)]

    async def run(self) -> None:
        """Run the service until SIGTERM or SIGINT. A second signal kills all workers.

        Raises:
            CannotListen: An address is unusable.
            WorkerError: A worker exited before all workers were serving.
        """
        with contextlib.ExitStack() as stack:
            for listener in (*self._settings.listen, *self._settings.http.listen):
                address = listener.parsed
                # This fails if another server, perhaps with a different policy, listens there.
                reserved = stack.enter_context(reserve_tcp(address.host, address.port))
                self._ports += (int(reserved.getsockname()[1]),)
            handle_signals(self.stop, self._reload, self._kill)
            stopping = asyncio.create_task(self.stop.wait())
            running = [asyncio.create_task(self._keep_running(each)) for each in range(self.size)]
            alive = asyncio.create_task(self._notifier.keep_alive())
            reloading = asyncio.create_task(run_on(self._reload, self._reload_workers))
            try:
                await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
                for task in running:
                    if task.done():
                        await task  # raises the startup error
            finally:
                self.stop.set()
                self._notifier.stopping()
                await self._stop_workers()
                for other in (stopping, alive, reloading, *running):
                    other.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        _LOG.info("stopped")

    async def request_all(
        self, name: str, *, seconds: float, starting: bool = False
    ) -> dict[int, Any | ChannelError]:
        """Send a request to all serving workers and, if `starting`, to starting workers.

        Return their responses or errors, by index.
        """
        workers = [worker for worker in self.workers if starting or worker.ready.is_set()]
        responses = await asyncio.gather(
            *(worker.request(name, seconds=seconds) for worker in workers), return_exceptions=True
        )
        return {worker.index: each for worker, each in zip(workers, responses, strict=True)}

    async def _keep_running(self, index: int) -> None:
        """Run a worker, and replace it whenever it exits, until the supervisor stops."""
        unsteady = 0
        while not self.stop.is_set():
            begin = time.monotonic()
            try:
                status, failure, reason, was_ready = await self._run_once(index)
            except OSError as error:
                status, failure = None, f"cannot be started: {error.strerror or error}"
                reason, was_ready = "ended", False
            if self.stop.is_set():
                return
            if not self.all_served:
                raise WorkerError(failure)
            # On a slow machine, a worker may take as long only to fail.
            steady = was_ready and time.monotonic() - begin >= STEADY_SECONDS
            unsteady = 0 if steady else unsteady + 1
            pause = pauses.WORKER.after(unsteady) if unsteady else 0.0
            self.replaced[reason] += 1
            fields = {"index": index, "status": status, "pause_seconds": pause, "failure": failure}
            _LOG.error("a worker has exited and will be replaced", extra=fields)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.stop.wait()

    async def _run_once(self, index: int) -> tuple[int, str, str, bool]:
        """Run a worker until it exits.

        Return its status, its failure, why to replace it, and whether it was ever ready.
        """

        async def on_broadcast(value: Any) -> list[str]:
            return await self._broadcast(worker, value)

        def spec() -> dict[str, Any]:
            return spec_message(
                index, self._ports, self._initial_content, self._current_content, self._server
            )

        handlers = {"revision": self._on_revision, "broadcast": on_broadcast}
        self._workers[index] = worker = await WorkerProcess.start(index, spec, handlers)
        serving = asyncio.create_task(self._await_ready(worker))
        watching = asyncio.create_task(worker.kill_if_silent(WORKER_TIMEOUT_SECONDS))
        try:
            status = await worker.wait()
        finally:
            serving.cancel()
            watching.cancel()
            del self._workers[index]
        reason = "silent" if worker.was_silent else "ended"
        return status, worker.failure, reason, worker.ready.is_set()

    async def _await_ready(self, worker: WorkerProcess) -> None:
        await worker.ready.wait()
        _LOG.info("a worker is serving", extra={"index": worker.index, "pid": worker.pid})
        if self._reloaded:
            # This makes the worker log changed settings that require a restart.
            with contextlib.suppress(ChannelError):
                await worker.request("reload", seconds=RELOAD_TIMEOUT)
        if self.all_served or len(self._workers) < self.size:
            return
        if all(other.ready.is_set() for other in self.workers):
            self.all_served = True
            self._announce(worker.lines)
            self._notifier.ready()

    async def _on_revision(self, value: Any) -> int:
        return self._revisions.revision(str(value["checksum"]), int(value["current"]))

    async def _broadcast(self, sender: WorkerProcess, value: Any) -> list[str]:
        """Call an RPC method in all other workers.

        The response is empty for a worker that has exited, because its replacement starts with
        fresh state. Raises ChannelError if a running worker does not confirm.
        """
        others = [worker for worker in self.workers if worker is not sender]
        responses = await asyncio.gather(
            *(worker.request("call", value, seconds=float(value["seconds"])) for worker in others),
            return_exceptions=True,
        )
        confirmed: list[str] = []
        for worker, response in zip(others, responses, strict=True):
            if not isinstance(response, BaseException):
                confirmed.append(response)
            elif not await worker.ended(END_SECONDS):
                raise ChannelError(f"worker {worker.index} did not confirm: {response}")
        return confirmed + [""] * (self.size - 1 - len(confirmed))

    async def _reload_workers(self) -> None:
        self._reloaded = True
        if self.all_served:
            self._notifier.reloading()
        with contextlib.suppress(Exception):  # the workers log the errors
            settings, content = await self._reader.read()
            self._settings = with_changes(self._settings, settings)
            self._current_content = content
        # Include starting workers, because they may already have read the old settings.
        responses = await self.request_all("reload", seconds=RELOAD_TIMEOUT, starting=True)
        for index, response in responses.items():
            if isinstance(response, ChannelError):
                fields = {"index": index, "error": str(response)}
                _LOG.warning("a worker did not confirm the reload", extra=fields)
        if self.all_served:
            self._notifier.ready()

    async def _stop_workers(self) -> None:
        drain = self._settings.drain
        seconds = drain.delay + drain.grace + EXTRA_STOP_SECONDS
        await asyncio.gather(*(worker.stop(seconds) for worker in self.workers))

    def _kill(self) -> None:
        for worker in self.workers:
            worker.kill()
