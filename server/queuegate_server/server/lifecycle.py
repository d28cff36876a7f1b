"""The lifecycle of a server: start, serve, drain, stop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from queuegate.policy.tree import Policy
from queuegate_server.admin.readiness import Phase, Readiness
from queuegate_server.observe import logs
from queuegate_server.reloads import ReloadCause
from queuegate_server.runtime import resources
from queuegate_server.runtime.event_loop import handle_signals, run_on
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.runtime.tcp import check_free
from queuegate_server.server.startup import close_core, load_first
from queuegate_server.server.wiring import ServerParts, build_server
from queuegate_server.settings.listeners import ListenAddress, parse_host_port
from queuegate_server.settings.model import Settings
from queuegate_server.settings.reload import ConfigReloader, SettingsApplier, SettingsReader
from queuegate_server.supervisor.worker_client import WorkerClient
from queuegate_server.transports.registry import choose

if TYPE_CHECKING:
    from queuegate_server.admin.http import AdminServer, Site

_LOG = logging.getLogger("queuegate_server.server.lifecycle")


async def serve(
    settings: Settings,
    announce: Callable[[list[str], Policy], list[str]],
    *,
    current: Settings,
    read_settings: Callable[[], Settings],
    worker: WorkerClient | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. A second signal exits immediately.

    Args:
        settings: The settings at service start.
        announce: Called with the addresses and the policy as soon as the server is serving; returns
            the lines to print.
        current: The current settings. In a worker started after a SIGHUP, they may differ from
            `settings`.
        read_settings: Rereads the settings on SIGHUP.
        worker: The worker's client if this process is one of several workers. A worker does not
            listen until it has loaded the policy, and its supervisor prints the lines.

    Raises:
        CannotListen: An address or file is unusable.
        CannotServe: The policy is invalid.
        CannotAudit: The audit log is unusable.
        TracingNotInstalled: Tracing is enabled and OpenTelemetry is not installed.
    """
    resources.configure_gc()
    resources.shorten_thread_switches()
    addresses = _addresses(settings, worker)
    transport, not_native = choose(settings.transport, settings.listen, settings.limits.connections)
    parts = build_server(settings, current, transport, worker)
    metrics, admin = await _open_admin_port(settings, parts, worker)
    notifier = Notifier()
    config = ConfigReloader(
        settings,
        current,
        SettingsReader(read_settings),
        _appliers(parts, worker),
        parts.readiness.report_settings,
        notifier,
    )
    stop = asyncio.Event() if worker is None else worker.stopping
    reload = asyncio.Event()
    handle_signals(stop, reload)
    tasks: set[asyncio.Task[object]] = {asyncio.create_task(run_on(reload, config.reload))}
    alive = asyncio.create_task(notifier.keep_alive())
    bound: list[str] = []
    try:
        if worker is None:
            bound = await _listen(parts, addresses, settings)
        else:
            await worker.open(
                reload=config.reload,
                metrics=lambda: metrics().decode(),
                readiness=parts.readiness.details,
            )
        if await load_first(parts.core, stop):
            if worker is not None:
                bound = await _listen(parts, addresses, settings)
            parts.health.set_serving(serving=True)
            parts.readiness.phase = Phase.SERVING
            tasks.add(asyncio.create_task(parts.listeners.watch()))
            if any(source.is_set for source in settings.sources):
                tasks.add(asyncio.create_task(parts.core.reloader.watch()))
            else:
                _LOG.warning("no policy is configured; serving the embedded default")
            _LOG.info("transport", extra={"transport": transport, "not_native": not_native})
            _log_start(bound, parts, settings)
            lines = announce(bound, parts.core.engine.snapshot.policy)
            if worker is not None:
                await worker.ready(lines)
            notifier.ready()
            await stop.wait()
            notifier.stopping()
            _LOG.info("draining", extra={"grace_seconds": config.settings.drain.grace})
            _drain(parts)
            await asyncio.sleep(config.settings.drain.delay)
    finally:
        for task in tasks:
            task.cancel()
        await _close(parts, admin, config.settings.drain.grace if stop.is_set() else None)
        if worker is not None:
            worker.close()
        alive.cancel()
    _LOG.info("stopped")


def _addresses(settings: Settings, worker: WorkerClient | None) -> list[ListenAddress]:
    """Return the addresses of gRPC, then those of HTTP; workers use the ports reserved by their
    supervisor. Raises CannotListen.
    """
    listeners = (*settings.listen, *settings.http.listen)
    addresses = [listener.parsed for listener in listeners]
    if worker is None:
        for address in addresses:
            check_free(address.host, address.port)
        return addresses
    ports = worker.spec.ports
    return [replace(each, port=port) for each, port in zip(addresses, ports, strict=True)]


async def _open_admin_port(
    settings: Settings, parts: ServerParts, worker: WorkerClient | None
) -> "tuple[Callable[[], bytes], AdminServer | None]":
    """Open the operations port unless it is disabled or served by a supervisor.

    Return a function that renders the metrics, and the port's server if open. Raises CannotListen.
    """
    if settings.ops.listen is None:
        return bytes, None
    from queuegate_server.server.metrics import metrics_writer  # noqa: PLC0415 - slow

    metrics = metrics_writer(parts)
    if worker is not None:
        return metrics, None
    from queuegate_server.admin.http import AdminServer  # noqa: PLC0415 - slow

    site = _console(settings, parts) if settings.console.enabled else None
    admin = AdminServer(
        parse_host_port(settings.ops.listen),
        _SingleProcess(parts.readiness, metrics),
        parts.listeners.ops_certificate,
        site,
    )
    await admin.start()
    return metrics, admin


def _console(settings: Settings, parts: ServerParts) -> "Site":
    from queuegate_server.console.annotations import Annotator  # noqa: PLC0415 - optional
    from queuegate_server.console.app import ConsoleSite  # noqa: PLC0415 - optional
    from queuegate_server.console.views import Services  # noqa: PLC0415 - optional

    console = ConsoleSite(
        Services(
            settings=settings,
            core=parts.core,
            access=parts.access,
            user_groups=parts.user_groups,
            checking=parts.checking,
            certificates=parts.listeners.certificates,
            readiness=parts.readiness,
            addresses=parts.listeners.addresses,
            http_addresses=parts.listeners.http_addresses,
            http_counts={} if parts.http is None else parts.http.server.counts,
            annotator=Annotator(lambda: parts.core.reloader.served_texts),
            sign_ins=parts.sign_ins,
        ),
        parts.listeners.ops_authenticator,
        parts.listeners.rates,
    )
    return console.site()


@dataclass(frozen=True, slots=True)
class _SingleProcess:
    """The readiness and metrics of a server without a supervisor."""

    _readiness: Readiness
    _metrics: Callable[[], bytes]

    async def readiness(self) -> dict[str, Any]:
        return self._readiness.details()

    async def startup(self) -> dict[str, Any]:
        return self._readiness.startup()

    async def metrics(self) -> bytes:
        return self._metrics()


async def _listen(
    parts: ServerParts, addresses: list[ListenAddress], settings: Settings
) -> list[str]:
    """Listen on all addresses. Return those of gRPC, with the actual ports. Raises CannotListen."""
    count = len(settings.listen)
    bound = parts.listeners.bind(parts.server, addresses[:count])
    if parts.http is not None:
        parts.listeners.bind_http(parts.http, addresses[count:])
        await parts.http.start()
        if parts.core.fleet is not None:
            parts.core.fleet.http_addresses = parts.listeners.http_addresses
    await parts.server.start()
    return bound


def _drain(parts: ServerParts) -> None:
    """Tell clients and load balancers to go elsewhere, while calls are still answered."""
    parts.health.set_serving(serving=False)
    parts.readiness.phase = Phase.DRAINING
    if parts.http is not None:
        parts.http.drain()


async def _close(parts: ServerParts, admin: "AdminServer | None", grace: float | None) -> None:
    """Wait up to `grace` seconds for calls in progress, then close all parts of the server."""
    parts.core.reloader.close()
    parts.health.end_watches()
    parts.draining.set()
    stops = [parts.server.stop(grace)]
    if parts.http is not None:
        stops.append(parts.http.stop(grace))
    await asyncio.gather(*stops)
    # Once this process has exited, its replacement assumes that no gate still uses the old state.
    await parts.core.sync.wait_for_leases()
    await close_core(parts.core)
    if parts.tracer is not None:
        await parts.tracer.close()
    if admin is not None:
        await admin.close()


def _appliers(parts: ServerParts, worker: WorkerClient | None) -> Sequence[SettingsApplier]:
    """Return the functions that apply reloaded settings, in order. The last reloads the policy."""
    index = None if worker is None else worker.spec.index
    return (
        lambda settings: logs.configure(settings.log.level, settings.log.format, worker=index),
        lambda settings: parts.call_limit.reconfigure(settings.limits.max_concurrent_calls),
        lambda settings: parts.listeners.reconfigure(settings.callers),
        parts.core.resolvers.reconfigure,
        lambda _settings: parts.core.reloader.reload(ReloadCause.SETTINGS),
    )


def _log_start(bound: list[str], parts: ServerParts, settings: Settings) -> None:
    resources.warn_if_fewer_files_than(settings.limits.connections.most)
    for text in bound:
        _LOG.info("listening", extra={"address": text})
    for text in parts.listeners.http_addresses:
        _LOG.info("listening over HTTP", extra={"address": text})
    parts.listeners.warn()
