"""Looks after several workers that serve on the same ports; serves nothing itself.

It starts the workers, replaces those that end, hands signals on, and carries what all
of them must do or agree on from one to the others. It knows no gRPC, so that it is
small and that nothing of a call can hurt it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.signals import each_time
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import SettingsReader, with_changes
from queuegate_server.supervisor.channel import ChannelError
from queuegate_server.supervisor.metrics import MergedMetrics
from queuegate_server.supervisor.ports import reserve
from queuegate_server.supervisor.process import WorkerProcess
from queuegate_server.supervisor.revisions import Revisions
from queuegate_server.supervisor.settings_files import SettingsFiles

_LOG = logging.getLogger("queuegate_server.supervisor")
_STEADY_SECONDS: Final = 10.0
"""A worker that lived for so long is replaced at once."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
_HANGUP_SECONDS: Final = 60.0
_METRICS_SECONDS: Final = 2.0
_READINESS_SECONDS: Final = 0.5
"""A worker that hangs must not hold up a probe, which waits for 1 s as a rule."""
_SPARE_SECONDS: Final = 10.0
"""How much longer than its drain a worker may take to end."""


class CannotStart(Exception):
    """A worker did not come up at the start; the text is the worker's own, or empty if it
    crashed without one.
    """


class Supervisor:
    """The workers of one service. Used from one event loop, once."""

    def __init__(
        self,
        settings: Settings,
        *,
        content: bytes | None,
        started: Callable[[Sequence[str]], None],
        reread: Callable[[], tuple[Settings, bytes | None]],
        notifier: Notifier,
    ) -> None:
        """Take the settings, the content of their file, what is called with the lines to
        print once all workers serve, and what reads the settings again on SIGHUP, with the
        content of their file, for the supervisor itself and for workers that start later.
        """
        self._settings = settings
        self._files = SettingsFiles(content)
        self._hung_up = False
        self._started = started
        self._rereading = SettingsReader(reread)
        self._notifier = notifier
        self._revisions = Revisions()
        self._metrics = MergedMetrics()
        self._live: dict[int, WorkerProcess] = {}
        self._ports: tuple[int, ...] = ()
        self.all_served = False
        """Whether all workers have come up."""
        self._stop = asyncio.Event()
        self._asked_to_reload = asyncio.Event()
        self.replaced = {"ended": 0, "silent": 0}
        """How many workers have been replaced so far, by the reason."""

    @property
    def is_ending(self) -> bool:
        """Whether the workers drain, or are gone."""
        return self._stop.is_set()

    @property
    def live(self) -> list[WorkerProcess]:
        """The workers that run now, in their order; not all of them need serve yet."""
        return [self._live[index] for index in sorted(self._live)]

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second one ends everything at once.

        Raises CannotListen, and CannotStart if a worker ends before all serve.
        """
        with contextlib.ExitStack() as stack:
            addresses = [listener.parsed for listener in self._settings.listen]
            self._ports = reserve(addresses, stack)
            stack.callback(self._files.close)
            self._on_signals()
            stopping = asyncio.create_task(self._stop.wait())
            keeping = [
                asyncio.create_task(self._keep(index)) for index in range(self._settings.workers)
            ]
            alive = asyncio.create_task(self._notifier.keep_alive())
            reloading = asyncio.create_task(each_time(self._asked_to_reload, self._hang_up))
            try:
                await asyncio.wait({stopping, *keeping}, return_when=asyncio.FIRST_COMPLETED)
                for task in keeping:
                    if task.done():
                        await task  # why the start failed
            finally:
                self._stop.set()
                self._notifier.stopping()
                await self._end()
                for other in (stopping, alive, reloading, *keeping):
                    other.cancel()
                await asyncio.gather(*keeping, return_exceptions=True)
        _LOG.info("stopped")

    async def ask_all(
        self, name: str, value: Any = None, *, seconds: float
    ) -> dict[int, Any | ChannelError]:
        """Ask every worker that serves; return the answers, or why there are none."""
        workers = [worker for worker in self.live if worker.ready.is_set()]
        answers = await asyncio.gather(
            *(worker.ask(name, value, seconds=seconds) for worker in workers),
            return_exceptions=True,
        )
        indices = (worker.index for worker in workers)
        return dict(zip(indices, map(_answer, answers), strict=True))

    async def metrics(self) -> str:
        """Return the metrics of all workers in Prometheus' text format.

        Of one that does not answer in time, only what it had counted before is there.
        """
        pids = {worker.index: worker.pid for worker in self.live}
        answers = await self.ask_all("metrics", seconds=_METRICS_SECONDS)
        texts = {i: text for i, text in answers.items() if not isinstance(text, ChannelError)}
        for index, text in texts.items():
            self._metrics.update(index, pids[index], text)
        return self._metrics.text(texts)

    async def readiness(self) -> dict[int, Any | ChannelError]:
        """Return what each worker says of its readiness, as JSON, or why it says nothing."""
        said = await self.ask_all("readiness", seconds=_READINESS_SECONDS)
        starting = {worker.index for worker in self.live}
        return {
            index: said[index]
            if index in said
            else ChannelError("it is starting" if index in starting else "it has ended")
            for index in range(self._settings.workers)
        }

    async def _keep(self, index: int) -> None:
        """Run one worker, and the next one when it ends, until the supervisor stops."""
        pause = 0.0
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                status, failure, reason = await self._run_one(index)
            except OSError as error:
                status, failure = None, f"cannot be started: {error.strerror or error}"
                reason = "ended"
            if self._stop.is_set():
                return
            if not self.all_served:
                raise CannotStart(failure)
            steady = time.monotonic() - begin >= _STEADY_SECONDS
            pause = 0.0 if steady else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self.replaced[reason] += 1
            fields = {"index": index, "status": status, "pause_seconds": pause, "failure": failure}
            _LOG.error("a worker has ended and is replaced", extra=fields)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()

    async def _run_one(self, index: int) -> tuple[int, str, str]:
        """Return the exit status of a worker, why it could not start if it said so, and for
        which of the reasons of `replaced` it is gone.
        """

        async def everywhere(value: Any) -> list[str]:
            return await self._everywhere(worker, value)

        worker = WorkerProcess(index, {"revision": self._revision, "everywhere": everywhere})
        await worker.start(self._ports, self._files.at_start, self._files.changed)
        self._live[index] = worker
        serving = asyncio.create_task(self._note_ready(worker))
        watching = asyncio.create_task(worker.end_if_silent(self._settings.worker_timeout))
        try:
            status = await worker.wait()
        finally:
            serving.cancel()
            watching.cancel()
            del self._live[index]
        return status, worker.failure, "silent" if worker.was_silent else "ended"

    async def _note_ready(self, worker: WorkerProcess) -> None:
        await worker.ready.wait()
        _LOG.info("a worker serves", extra={"index": worker.index, "pid": worker.pid})
        if self._hung_up:
            # The signal may have come after it was started; and it tells what waits for a restart.
            with contextlib.suppress(ChannelError):
                await worker.ask("hangup", seconds=_HANGUP_SECONDS)
        if self.all_served or len(self._live) < self._settings.workers:
            return
        if all(other.ready.is_set() for other in self.live):
            self.all_served = True
            self._started(worker.lines)
            self._notifier.ready()

    async def _revision(self, value: Any) -> int:
        return self._revisions.number(str(value["checksum"]), int(value["current"]))

    async def _everywhere(self, asking: WorkerProcess, value: Any) -> list[str]:
        """Run a method in all other workers. Raises ChannelError if one does not confirm.

        A worker that ends meanwhile counts as one that has: its successor starts anew.
        """
        others = [worker for worker in self.live if worker is not asking]
        answers = await asyncio.gather(
            *(worker.ask("call", value, seconds=float(value["seconds"])) for worker in others),
            return_exceptions=True,
        )
        confirmed: list[str] = []
        for worker, answer in zip(others, answers, strict=True):
            if not isinstance(answer, BaseException):
                confirmed.append(answer)
            elif self._live.get(worker.index) is worker:
                raise ChannelError(f"worker {worker.index} did not confirm: {answer}")
        return confirmed

    async def _hang_up(self) -> None:
        self._hung_up = True
        if self.all_served:
            self._notifier.reloading()
        with contextlib.suppress(Exception):  # the workers tell what is wrong
            settings, content = await self._rereading.read()
            self._settings = with_changes(self._settings, settings)
            self._files.change(content)
        for index, answer in (await self.ask_all("hangup", seconds=_HANGUP_SECONDS)).items():
            if isinstance(answer, ChannelError):
                fields = {"index": index, "error": str(answer)}
                _LOG.warning("a worker did not confirm the reload", extra=fields)
        if self.all_served:
            self._notifier.ready()

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()

        def ask_to_stop(number: signal.Signals) -> None:
            if not self._stop.is_set():
                self._stop.set()
                return
            for worker in self.live:
                worker.kill()
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask_to_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_reload.set)

    async def _end(self) -> None:
        drain = self._settings.drain
        seconds = drain.delay + drain.grace + _SPARE_SECONDS
        await asyncio.gather(*(worker.stop(seconds) for worker in self.live))


def _answer(answer: Any) -> Any:
    if isinstance(answer, BaseException) and not isinstance(answer, ChannelError):
        return ChannelError(f"unexpected {type(answer).__name__}")
    return answer
