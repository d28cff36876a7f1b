"""The webhook with a policy: builds the decision core, and passes it to the webhook's endpoints.

Does not import gRPC, which would take 20 MiB; a tracer does.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry

from queuegate.policy.tree import Partition
from queuegate_server.admin.readiness import Phase, Readiness
from queuegate_server.admission.annotations.requester_groups import RequesterGroups
from queuegate_server.admission.process import AdmissionOptions, serve_admission
from queuegate_server.admission.queues import authorize
from queuegate_server.admission.queues.authorize import QueueAuthorizer
from queuegate_server.admission.queues.places import build_places, enforced_mode
from queuegate_server.admission.queues.policy_review import (
    reload_faults,
    review_policy,
    review_settings,
)
from queuegate_server.admission.queues.queues_endpoint import QueueEndpoint
from queuegate_server.admission.queues.records import QueueRecords
from queuegate_server.admission.queues.reviewer import QueueReviewer
from queuegate_server.admission.registration.configurations import (
    QUEUES_PATH,
    Service,
    webhook_configurations,
)
from queuegate_server.admission.registration.yaml_writer import without_comments
from queuegate_server.admission.server.endpoints import Endpoint
from queuegate_server.admission.server.strangers import StrangerLookups
from queuegate_server.decisions.core import build_core
from queuegate_server.fleet.view import WEBHOOK, QueueDecisions
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.identity.resolver import Resolver
from queuegate_server.observe import logs
from queuegate_server.policystore.parsing import ParseJob
from queuegate_server.reloads import ReloadCause
from queuegate_server.runtime import resources
from queuegate_server.runtime.event_loop import run_on
from queuegate_server.runtime.sd_notify import Notifier
from queuegate_server.server.core_metrics import CoreCollector
from queuegate_server.server.startup import close_core, load_first
from queuegate_server.settings.admission import Admission, GroupSource
from queuegate_server.settings.load import SettingsError
from queuegate_server.settings.model import Settings
from queuegate_server.settings.queue_schedulers import Mode
from queuegate_server.settings.reload import (
    ConfigReloader,
    SettingsApplier,
    SettingsReader,
    differences,
    with_changes,
)

if TYPE_CHECKING:
    from queuegate_server.observe.tracing import Tracer

_LOG = logging.getLogger("queuegate_server.server.webhook")
_APPLY: Final = "apply the output of `queuegate-server admission manifest` again"


async def serve_with_settings(
    options: AdmissionOptions,
    environment: Mapping[str, str],
    started: Callable[[str, str], None],
    *,
    settings: Settings,
    read_settings: Callable[[], Settings],
    tracer: "Tracer | None" = None,
) -> None:
    """Serve the webhook until SIGTERM or SIGINT; with a policy, SIGHUP reloads the settings.

    Args:
        options: The webhook's options.
        environment: See `serve_admission`.
        started: See `serve_admission`.
        settings: The settings at startup.
        read_settings: Rereads the settings. Raises SettingsError.
        tracer: Records spans for reviews and lookups.

    Raises:
        CannotServe: The policy is invalid, or cannot be used with the settings.
        CannotAudit: The audit log is unusable.
        YuniKornSettingsError, BadFile, CannotListen, TooFewResources: See `serve_admission`.
    """
    backend = None
    if settings.admission.needs_policy:
        backend = PolicyBackend(
            settings,
            read_settings,
            around=None if tracer is None else tracer.resolver,
        )
    middlewares = () if tracer is None else (_traced(tracer),)
    try:
        await serve_admission(options, environment, started, backend, middlewares)
    finally:
        if tracer is not None:
            await tracer.close()


def _traced(tracer: "Tracer") -> Middleware:
    """Return a middleware that records a span for each request to an endpoint."""

    @web.middleware
    async def traced(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)
        with tracer.review(resource.canonical, request.headers) as ended:
            response = await handler(request)
            ended(response.status)
            return response

    return traced


class PolicyBackend:
    """Makes decisions in the webhook's process. Implements `admission.process.Backend`."""

    def __init__(
        self,
        settings: Settings,
        read_settings: Callable[[], Settings],
        *,
        around: Callable[[str, Resolver], Resolver] | None = None,
    ) -> None:
        """Build the decision core on the running event loop. Raises CannotAudit.

        Args:
            settings: The settings at startup.
            read_settings: Rereads the settings. Raises SettingsError.
            around: Wraps each resolver, given its name and the resolver itself.
        """
        resources.shorten_thread_switches()
        self._initial = settings
        self._registered = self._wanted = settings.admission
        """The settings that were last applied, and those that were last read."""
        self._read_settings = read_settings
        self._core = core = build_core(
            settings,
            settings,
            review=self._review,
            around=around,
            role=WEBHOOK,
        )
        fleet = core.fleet
        self._readiness = Readiness(
            core.engine, core.reloader, None if fleet is None else fleet.view
        )
        self._notifier = Notifier()
        self._appliers: list[SettingsApplier] = [
            lambda settings: logs.configure(settings.log.level, settings.log.format),
            self._log_warnings,
            core.resolvers.reconfigure,
            lambda _settings: core.reloader.reload(ReloadCause.SETTINGS),
        ]
        self._config = ConfigReloader(
            settings,
            settings,
            SettingsReader(self._read),
            self._appliers,
            self._report,
            self._notifier,
        )
        self._strangers = StrangerLookups()

    @property
    def parsing(self) -> asyncio.Lock:
        """The lock that is held while a child process parses the policy; see `Backend`."""
        return self._core.reloader.parsing

    def register(
        self, registry: CollectorRegistry, is_processed: Callable[[str], bool]
    ) -> Sequence[Endpoint]:
        """Register metrics, and return the endpoints; see `Backend`."""
        core = self._core
        registry.register(CoreCollector(core, self._readiness))
        settings = self._config.settings.admission
        if settings.authorization is None:
            return ()
        records = QueueRecords(core.decisions, registry, time.time)
        if core.fleet is not None:
            core.fleet.report_decisions(lambda: self._decisions(records))
        authorizer = QueueAuthorizer(core.engine, records, settings.authorization)
        endpoints = [Endpoint(authorize.PATH, authorizer)]
        if settings.queues is not None:
            reviewer = QueueReviewer(
                core.engine, settings.queues, records, self._strangers, is_processed
            )
            self._appliers.insert(0, partial(_reconfigure, reviewer))
            self._appliers.append(self._warn_of_registration)
            endpoints.append(Endpoint(QUEUES_PATH, QueueEndpoint(reviewer)))
        return endpoints

    def _decisions(self, records: QueueRecords) -> Sequence[QueueDecisions]:
        return records.by_scheduler(self._config.settings.admission)

    def requester_groups(self, registry: CollectorRegistry) -> RequesterGroups | None:
        """Return the requesters' groups for the annotation; see `Backend`."""
        settings = self._config.settings.admission.user_info
        if settings is None or settings.groups is GroupSource.KUBERNETES:
            return None
        return RequesterGroups(
            self._core.engine,
            settings,
            lambda: self._config.settings.partition(settings.partition).cache.positive_ttl,
            registry,
            strangers=self._strangers,
        )

    def _review(
        self, partitions: Mapping[str, Partition], texts: ParseJob | None
    ) -> Generator[None, None, list[Diagnostic]]:
        return review_policy(self._config.settings, partitions, texts)

    def _read(self) -> Settings:
        """Read the settings. Raises SettingsError, also if they do not fit the served policy."""
        read = self._read_settings()
        queues = with_changes(self._initial, read).admission.queues
        latest = self._core.engine.latest
        served = None if latest is None or queues is None else latest.served.get(queues.partition)
        if queues is not None and served is not None:
            faults = [*reload_faults(queues, served.partition)]
            if faults:
                raise SettingsError(faults)
        self._wanted = read.admission
        return read

    def _warn_of_registration(self, settings: Settings) -> None:
        """Log if the webhook configurations in the cluster no longer fit the applied settings."""
        before, now = self._registered, settings.admission
        if _registration(before) != _registration(now):
            changed = differences(
                self._initial.model_copy(update={"admission": before}),
                self._initial.model_copy(update={"admission": now}),
            )
            _LOG.warning(
                f"{_APPLY}: the API server still calls the webhook as the old settings require",
                extra={"keys": changed},
            )
        self._registered = now

    def _report(self, diagnostics: Sequence[Diagnostic], pending: Sequence[str]) -> None:
        """Report a reload of the settings, and log what else the pending ones need."""
        self._readiness.report_settings(diagnostics, pending)
        keys = [key for key in pending if key.startswith("admission.")]
        if not keys:
            return
        applied = self._config.settings.admission
        is_registered = _registration(self._wanted) != _registration(applied)
        remedy = f"restart the webhook, and {_APPLY}" if is_registered else "restart the webhook"
        _LOG.warning(f"{remedy}: changed settings are not applied", extra={"keys": keys})

    async def load(self, stop: asyncio.Event) -> bool:
        """Load the policy; see `Backend`. Raises CannotServe."""
        if not await load_first(self._core, stop):
            return False
        settings = self._config.settings
        if (queues := settings.admission.queues) is not None:
            mode = enforced_mode(queues, build_places(queues))
            is_off = mode is Mode.OFF
            what = "not checked: every mode is off" if is_off else "checked"
            _LOG.info(f"queues of objects are {what}", extra={"mode": str(mode)})
        self._log_warnings(settings)
        return True

    def _log_warnings(self, settings: Settings) -> None:
        """Log warnings about settings that are valid but insecure or ineffective."""
        for each in review_settings(settings):
            _LOG.warning("settings diagnostic", extra={"diagnostic": str(each)})

    async def run(self, reload: asyncio.Event) -> None:
        """Follow changes to the policy and the settings; see `Backend`."""
        self._notifier.ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_on(reload, self._config.reload))
            group.create_task(self._notifier.keep_alive())
            if any(source.is_set for source in self._config.settings.sources):
                group.create_task(self._core.reloader.watch())

    def set_phase(self, phase: Phase) -> None:
        """Set the phase that `readiness` reports."""
        self._readiness.phase = phase
        if phase is Phase.DRAINING:
            self._notifier.stopping()

    def readiness(self) -> dict[str, Any]:
        """Return a JSON object with `ready` and details."""
        return self._readiness.details()

    def startup(self) -> dict[str, Any]:
        """Return a JSON object with `started` and details."""
        return self._readiness.startup()

    async def close(self) -> None:
        """Close everything; see `Backend`."""
        self._core.reloader.close()
        await close_core(self._core)


def _reconfigure(reviewer: QueueReviewer, settings: Settings) -> None:
    if (queues := settings.admission.queues) is not None:
        reviewer.reconfigure(queues)


def _registration(settings: Admission) -> object:
    """Return the webhook configurations that fit the settings, to compare them."""
    return without_comments(webhook_configurations(settings, Service("", ""), ""))
