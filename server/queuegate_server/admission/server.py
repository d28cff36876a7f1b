"""Composition of the webhook: from options to running servers, and to a clean end."""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate_server.admission.app import Bounds, Webhook
from queuegate_server.admission.certificate import Certificate
from queuegate_server.admission.current import CurrentSettings
from queuegate_server.admission.http_server import HttpServer
from queuegate_server.admission.metrics import AdmissionMetrics
from queuegate_server.admission.namespaces import (
    ApiServer,
    CachedNamespaces,
    Namespaces,
    NoNamespaces,
)
from queuegate_server.admission.ops import ops_app
from queuegate_server.runtime.tcp import CannotListen, address_of, open_tcp

_LOG = logging.getLogger("queuegate_server.admission")
_MOST_GRACE: Final = 20


class CannotServe(Exception):
    """The webhook cannot start; the message says why."""


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """What the webhook is started with."""

    listen: tuple[str, int]
    """Host and port of the webhook, HTTPS."""
    ops_listen: tuple[str, int]
    """Host and port of health and metrics, HTTP."""
    tls_certificate: Path
    tls_key: Path
    config_maps: tuple[Path, ...]
    """The folders of the mounted ConfigMaps; a later one wins."""
    look_up_namespaces: bool
    api_server: str
    """The URL of the Kubernetes API."""
    service_account: Path
    """The folder with `token` and `ca.crt`."""
    acl_names: AclNames = AclNames.YUNIKORN
    bounds: Bounds = field(default_factory=Bounds)
    drain_seconds: float = 0.0
    """How long reviews are still taken after readiness has ended."""


async def serve_admission(
    options: AdmissionOptions,
    environment: Mapping[str, str],
    started: Callable[[str, str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends the process at once.

    Calls `started` with the addresses of the webhook and of health. Raises SettingsError,
    BadCertificate or CannotServe if it cannot start.
    """
    metrics = AdmissionMetrics()
    current = CurrentSettings(options.config_maps, environment, metrics.settings_reloaded)
    certificate = Certificate(
        options.tls_certificate, options.tls_key, metrics.certificate_reloaded
    )
    metrics.certificate_expires.set_function(lambda: certificate.expires)
    webhook = Webhook(current, _namespaces(options), metrics, options.acl_names, options.bounds)
    stop = asyncio.Event()
    listening, ops_listening = _listen(options.listen), _listen(options.ops_listen)
    server = HttpServer(
        webhook.app(), listening, tls=certificate.context, grace_seconds=_MOST_GRACE
    )
    ops = HttpServer(
        ops_app(metrics.registry, lambda: server.started and not stop.is_set()),
        ops_listening,
        tls=None,
        grace_seconds=1,
    )
    watches: list[Coroutine[object, object, None]] = [certificate.watch()]
    if options.config_maps:
        watches.append(current.watch())
    _on_signals(stop)
    async with asyncio.TaskGroup() as group:
        serving = [group.create_task(each.serve()) for each in (server, ops)]
        watching = [group.create_task(watch) for watch in watches]
        started(address_of(listening), address_of(ops_listening))
        await stop.wait()
        _LOG.info("draining")
        await asyncio.sleep(options.drain_seconds)
        server.should_exit = True
        await serving[0]
        ops.should_exit = True
        for watch in watching:
            watch.cancel()
    _LOG.info("stopped")


def _namespaces(options: AdmissionOptions) -> Namespaces:
    if not options.look_up_namespaces:
        return NoNamespaces()
    api_server = ApiServer(options.api_server, options.service_account)
    return CachedNamespaces(api_server.fetch, time.monotonic)


def _listen(address: tuple[str, int]) -> socket.socket:
    try:
        return open_tcp(*address)
    except CannotListen as error:
        raise CannotServe(f"cannot listen on {error}") from None


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
