"""The webhook process: ports, watched files, startup and shutdown."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry, generate_latest

from queuegate_server.admin.certificate import ops_certificate
from queuegate_server.admin.http import AdminServer
from queuegate_server.admin.readiness import Phase
from queuegate_server.admission.annotations.namespaces import (
    SOCKET_SECONDS,
    NamespaceCache,
    fetch_annotations,
)
from queuegate_server.admission.annotations.requester_groups import RequesterGroups
from queuegate_server.admission.annotations.reviews import AnnotationReviews
from queuegate_server.admission.annotations.yunikorn_settings import (
    YuniKornSettings,
    decode_settings,
    read_settings,
)
from queuegate_server.admission.annotations.yunikorn_settings_lint import lint_settings
from queuegate_server.admission.kubernetes_api import KubernetesApi
from queuegate_server.admission.server.admission_metrics import AdmissionMetrics
from queuegate_server.admission.server.endpoints import Endpoint
from queuegate_server.admission.server.https_server import WebhookServer
from queuegate_server.admission.server.routes import routes
from queuegate_server.admission.server.tls_connections import WebhookConnections
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.configmap import ConfigMapFolders
from queuegate_server.files.watcher import WatchedValue
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.runtime import resources
from queuegate_server.runtime.event_loop import handle_signals
from queuegate_server.settings.admission import WebhookTls
from queuegate_server.settings.listeners import HostPort
from queuegate_server.settings.observability import Ops

_LOG = logging.getLogger("queuegate_server.admission")
_MAX_LOGGED_WARNINGS: Final = 20


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """The webhook's options, and the settings of its ports."""

    listen: HostPort
    """The webhook's HTTPS address."""
    ops_listen: HostPort
    """The HTTP address for health checks and metrics."""
    tls: WebhookTls
    """The certificate, and which certificates clients must present."""
    config_maps: tuple[Path, ...]
    """The folders where ConfigMaps are mounted. Later folders override earlier ones."""
    namespace_annotations: bool
    api_server: str
    """The URL of the Kubernetes API."""
    service_account: Path
    """The folder that contains `token` and `ca.crt`."""
    policy_options: FormatOptions
    """How to read the policies in ConfigMaps."""
    drain_seconds: float
    """How many seconds to continue serving reviews after /readyz starts to fail."""
    yunikorn_duties: bool = False
    """Whether new pods get what YuniKorn's own admission controller adds."""
    ops: Ops = field(default_factory=Ops)
    """The settings of the operations port, which determine its certificate."""


class Backend(Protocol):
    """Makes decisions with the policy. `serve_admission` calls its methods in this order."""

    @property
    def parsing(self) -> asyncio.Lock:
        """The lock that is held while a child process parses the policy."""

    def register(
        self, registry: CollectorRegistry, is_processed: Callable[[str], bool]
    ) -> Sequence[Endpoint]:
        """Register metrics, and return the endpoints that depend on the policy.

        `is_processed` returns whether YuniKorn's settings select a namespace.
        """

    def requester_groups(self, registry: CollectorRegistry) -> RequesterGroups | None:
        """Return the requesters' groups for the annotation; None to use those in the requests."""

    async def load(self, stop: asyncio.Event) -> bool:
        """Load the policy. Return False if `stop` was set meanwhile."""

    async def run(self, reload: asyncio.Event) -> None:
        """Follow changes to the policy, and reload the settings each time `reload` is set, until
        cancelled.
        """

    def set_phase(self, phase: Phase) -> None:
        """Set the phase that `readiness` reports."""

    def readiness(self) -> dict[str, Any]:
        """Return a JSON object with `ready` and details."""

    def startup(self) -> dict[str, Any]:
        """Return a JSON object with `started` and details."""

    async def close(self) -> None:
        """Close everything, whether or not the policy has been loaded."""


async def serve_admission(
    options: AdmissionOptions,
    environment: Mapping[str, str],
    started: Callable[[str, str], None],
    backend: Backend | None = None,
    middlewares: Sequence[Middleware] = (),
) -> None:
    """Serve until SIGTERM or SIGINT. A second signal terminates the process immediately.

    Args:
        options: The options.
        environment: The environment variables, possibly with legacy settings.
        started: Called with the webhook's address and the operations port's URL.
        backend: Makes decisions with the policy, if the settings require them. /readyz fails until
            it has loaded the policy.
        middlewares: Wrap the handlers of requests from accepted clients.

    Raises:
        YuniKornSettingsError: The settings are invalid.
        BadFile: A file cannot be read or used.
        CannotListen: A port cannot be opened.
        TooFewResources: A system resource limit is too low.
    """
    resources.return_freed_memory()
    resources.raise_file_limit()
    resources.check_limits()
    settings = WatchedValue(
        ConfigMapFolders(options.config_maps), lambda values: _read_settings(values, environment)
    )
    tls = options.tls
    certificate = CertificateReloader(tls.certificate_file, tls.key_file, tls.client_ca_file)
    metrics = AdmissionMetrics(settings, certificate)
    endpoints = _endpoints(options, settings, metrics, backend)
    stop, reload = asyncio.Event(), asyncio.Event()
    connections = WebhookConnections(options.listen, certificate, frozenset(tls.client_names))
    handlers = routes(endpoints, metrics, verifies_clients=tls.client_ca_file is not None)
    server = WebhookServer(connections, handlers, middlewares)
    source = _AdminSource(metrics, backend)
    ops_tls = ops_certificate(options.ops)
    admin = AdminServer(options.ops_listen, source, ops_tls)
    handle_signals(stop, None if backend is None else reload)
    try:
        await admin.start()
        if backend is None or await backend.load(stop):
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(certificate.watch())]
                if ops_tls is not None:
                    watches.append(group.create_task(ops_tls.watch()))
                if options.config_maps:
                    watches.append(group.create_task(settings.watch()))
                if backend is not None:
                    watches.append(group.create_task(backend.run(reload)))
                await server.start()
                source.set_phase(Phase.SERVING)
                resources.freeze_gc()
                scheme = "http" if ops_tls is None else "https"
                started(connections.address, f"{scheme}://{admin.address}")
                await stop.wait()
                _LOG.info("draining")
                source.set_phase(Phase.DRAINING)
                server.drain()
                await asyncio.sleep(options.drain_seconds)
                await server.close()
                for watch in watches:
                    watch.cancel()
    finally:
        if backend is not None:
            await backend.close()
        await admin.close()
    _LOG.info("stopped")


def _endpoints(
    options: AdmissionOptions,
    settings: WatchedValue[Mapping[str, bytes], YuniKornSettings],
    metrics: AdmissionMetrics,
    backend: Backend | None,
) -> list[Endpoint]:
    """Return the endpoints for annotations, and those that depend on the policy."""

    def is_processed(namespace: str) -> bool:
        return settings.value.processes(namespace)

    namespaces = None
    if options.namespace_annotations:
        fetch = partial(
            fetch_annotations,
            KubernetesApi(options.api_server, options.service_account, SOCKET_SECONDS),
        )
        namespaces = NamespaceCache(fetch, time.monotonic)
    further = () if backend is None else backend.register(metrics.registry, is_processed)
    annotations = AnnotationReviews(
        settings=lambda: settings.value,
        namespaces=namespaces,
        policy_options=options.policy_options,
        has_yunikorn_duties=options.yunikorn_duties,
        groups=None if backend is None else backend.requester_groups(metrics.registry),
        parsing=asyncio.Lock() if backend is None else backend.parsing,
    )
    return [*annotations.endpoints(), *further]


def _read_settings(values: Mapping[str, bytes], environment: Mapping[str, str]) -> YuniKornSettings:
    texts = decode_settings(values)
    warnings = lint_settings(texts, environment)
    for warning in warnings[:_MAX_LOGGED_WARNINGS]:
        _LOG.warning("probable mistake in a setting", extra={"warning": warning})
    left = len(warnings) - _MAX_LOGGED_WARNINGS
    if left > 0:
        _LOG.warning("more settings with probable mistakes", extra={"count": left})
    return read_settings(texts, environment)


@dataclass(slots=True)
class _AdminSource:
    """Readiness and metrics for the operations port."""

    _metrics: AdmissionMetrics
    _backend: Backend | None
    _phase: Phase = Phase.STARTING

    def set_phase(self, phase: Phase) -> None:
        self._phase = phase
        if self._backend is not None:
            self._backend.set_phase(phase)

    async def readiness(self) -> dict[str, Any]:
        if self._backend is not None:
            return self._backend.readiness()
        return {"ready": self._phase is Phase.SERVING}

    async def startup(self) -> dict[str, Any]:
        if self._backend is not None:
            return self._backend.startup()
        return {"started": True}

    async def metrics(self) -> bytes:
        return generate_latest(self._metrics.registry)
