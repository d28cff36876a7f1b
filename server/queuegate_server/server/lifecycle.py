"""A server from its start to its end: the order of things, and signals."""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace

from queuegate.policy.tree import Policy
from queuegate_server.admin.readiness import Phase
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.observe import logs
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.runtime import fds, gc_tuning
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.signals import each_time
from queuegate_server.runtime.tcp import check_free
from queuegate_server.server.config_reload import Hangup, OnHangup
from queuegate_server.server.wiring import Parts, compose
from queuegate_server.settings.addresses import Address
from queuegate_server.settings.model import Settings
from queuegate_server.supervisor.worker_client import WorkerClient
from queuegate_server.transports.choose import choose

_LOG = logging.getLogger("queuegate_server.server.lifecycle")


class CannotStart(Exception):
    """The first policy is not valid."""

    def __init__(self, problems: tuple[Diagnostic, ...]) -> None:
        """Keep the findings."""
        super().__init__(f"{len(problems)} findings")
        self.problems = problems


async def serve(
    settings: Settings,
    started: Callable[[list[str], Policy], list[str]],
    *,
    holding: Settings,
    reread: Callable[[], Settings] | None = None,
    member: WorkerClient | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, also while the first policy is being read; a second
    signal ends the process at once.

    `started` returns the lines to print, from the addresses and the policy, once the first
    one is served. `holding` is what has become of the settings by SIGHUP before this worker
    was started. `reread` reads the settings again on SIGHUP. As one worker of several
    (`member`) it listens only when it can answer, and its supervisor does the printing.
    Raises CannotListen if an address or a file is unusable, CannotStart if the policy is,
    CannotAudit and TracingNotInstalled.
    """
    gc_tuning.configure()
    addresses = _addresses(settings, member)
    transport, not_native = choose(settings.transport, settings.listen, settings.limits.connections)
    parts = compose(settings, holding, transport, member)
    stop = asyncio.Event() if member is None else member.gone
    notifier = Notifier()
    hangup = Hangup(settings, holding, reread, notifier)
    hangup.on_hangup += _changes(parts, member)
    tasks: set[asyncio.Task[object]] = {
        asyncio.create_task(each_time(_on_signals(stop), hangup.run)),
    }
    alive = asyncio.create_task(notifier.keep_alive())
    bound: list[str] = []
    try:
        await parts.operations.start(
            parts.engine, parts.reloader, parts.sources, parts.edge.certificates
        )
        if member is None:
            bound = await _listen(parts, addresses)
        else:
            member.hangup = hangup.run
            member.metrics = parts.operations.metrics_text
            member.readiness = parts.operations.details
            await member.open()
        if await _load_first(parts.reloader, stop):
            if member is not None:
                bound = await _listen(parts, addresses)
            parts.health.set_serving(serving=True)
            parts.operations.set_phase(Phase.SERVING)
            tasks |= {asyncio.create_task(watch) for watch in _watches(parts, settings)}
            _LOG.info("transport", extra={"transport": transport, "not_native": not_native})
            _announce(bound, settings)
            parts.edge.warn()
            lines = started(bound, parts.engine.snapshot.policy)
            if member is not None:
                await member.ready(lines)
            notifier.ready()
            await stop.wait()
            notifier.stopping()
            drain = hangup.settings.drain
            _LOG.info("draining", extra={"grace_seconds": drain.grace})
            parts.health.set_serving(serving=False)
            parts.operations.set_phase(Phase.DRAINING)
            await asyncio.sleep(drain.delay)
    finally:
        for task in tasks:
            task.cancel()
        await _end(parts, hangup.settings.drain.grace if stop.is_set() else None)
        if member is not None:
            await member.close()
        alive.cancel()
    _LOG.info("stopped")


def _addresses(settings: Settings, member: WorkerClient | None) -> list[Address]:
    """Return where to listen; a worker at the ports that its supervisor has chosen.

    Raises CannotListen.
    """
    addresses = [listener.parsed for listener in settings.listen]
    if member is None:
        for address in addresses:
            check_free(address.host, address.port)
        return addresses
    ports = member.place.ports
    return [replace(one, port=port) for one, port in zip(addresses, ports, strict=True)]


async def _listen(parts: Parts, addresses: list[Address]) -> list[str]:
    bound = parts.edge.bind(parts.server, addresses)
    await parts.server.start()
    return bound


async def _end(parts: Parts, grace: float | None) -> None:
    """Let calls under way finish for so many seconds, and close everything."""
    parts.health.end_watches()
    parts.draining.set()
    await parts.server.stop(grace)
    await parts.sources.close()
    if parts.tracer is not None:
        await parts.tracer.close()
    await parts.operations.close()


def _changes(parts: Parts, member: WorkerClient | None) -> list[OnHangup]:
    """Return what SIGHUP does besides reading the settings."""
    worker = None if member is None else member.place.index

    async def reload_policy(_settings: Settings) -> None:
        await parts.reloader.reload()

    return [
        lambda settings: logs.configure(settings.log.level, settings.log.format, worker=worker),
        lambda settings: parts.operations.limit.use(settings.limits.max_concurrent_calls),
        lambda settings: parts.edge.use(settings.callers),
        parts.sources.reconfigure,
        reload_policy,
    ]


def _watches(parts: Parts, settings: Settings) -> Iterator[Coroutine[object, object, object]]:
    """Yield what loads files again when they change."""
    yield parts.edge.watch()
    if any(source.is_set for source in settings.sources):
        yield parts.reloader.watch()


async def _load_first(reloader: Reloader, stop: asyncio.Event) -> bool:
    """Serve the first policy; return False if asked to stop before that."""
    loading = asyncio.create_task(reloader.reload())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not loading.done():
        loading.cancel()
        return False
    state = loading.result()
    if not state.succeeded:
        raise CannotStart(state.problems)
    return True


def _on_signals(stop: asyncio.Event) -> asyncio.Event:
    """Have SIGTERM and SIGINT set `stop`; return what SIGHUP sets."""
    hung_up = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    return hung_up


def _announce(bound: list[str], settings: Settings) -> None:
    if not any(source.is_set for source in settings.sources):
        _LOG.warning("no policy is configured; serving the embedded default")
    fds.warn_of_fewer_than(settings.limits.connections.most)
    for text in bound:
        _LOG.info("listening", extra={"address": text})
