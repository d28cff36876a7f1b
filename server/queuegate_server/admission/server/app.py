"""The webhook's HTTP endpoints and metrics.

If a review fails, the webhook returns an HTTP error; with `failurePolicy: Fail`, the API server
then rejects the request.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import uuid4

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.admission.annotations.config_map import check_config_map, concerns_config_map
from queuegate_server.admission.annotations.namespaces import NamespaceCache, NamespaceError
from queuegate_server.admission.annotations.requester_groups import CannotResolve, RequesterGroups
from queuegate_server.admission.annotations.requests import (
    MalformedReview,
    read_review,
    write_review,
)
from queuegate_server.admission.annotations.rules import (
    ALLOWED,
    DEFAULT_NAMESPACE,
    UNKNOWN_GROUPS,
    AdmissionRequest,
    AdmissionResponse,
    GroupsNeeded,
    OwnGroups,
    concerns,
    decide,
    deny,
    verify,
)
from queuegate_server.admission.annotations.yunikorn_duties import add_duties
from queuegate_server.admission.annotations.yunikorn_settings import YuniKornSettings
from queuegate_server.admission.server.bodies import (
    JSON,
    LARGE_BODIES,
    RequestRefusal,
    error_response,
    is_small,
    received_body,
    write_response,
)
from queuegate_server.admission.server.endpoints import Endpoint, Handle, seconds_to_answer
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.watcher import WatchedValue
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.runtime.event_loop import PAUSE_SECONDS

_LOG = logging.getLogger("queuegate_server.admission")
_MAX_LOGGED_MESSAGE: Final = 1_000
_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

_BACKSTOP_SECONDS: Final = 0.5
"""How long after its deadline a handler is cancelled."""

_Rule = Callable[
    [AdmissionRequest, YuniKornSettings, Mapping[str, str], OwnGroups | None], AdmissionResponse
]
"""Reviews a request as `rules.decide` does."""
_Review = Callable[[AdmissionRequest, float], Awaitable[AdmissionResponse]]
"""Reviews a request until a deadline, in seconds of the event loop's clock."""
_Responder = Callable[[bytes, float], Awaitable[tuple[web.Response, str]]]
"""Returns the response to a body, and the outcome for metrics. Raises RequestRefusal."""


class AdmissionMetrics:
    """The webhook's metrics, in their own registry. No label names a user, group or namespace."""

    def __init__(self, settings: WatchedValue[Any, Any], certificate: CertificateReloader) -> None:
        """Register the metrics. Numbers of reloads are read from `settings` and `certificate`."""
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "queuegate_admission_reviews",
            "Requests to the webhook, by endpoint and outcome: allowed, patched (allowed with the "
            "object changed), denied, no_opinion (from /authorize); answered with an HTTP error: "
            "malformed, unverified (/authorize without client certificates), too_large, slow, "
            "disconnected (the body is incomplete), overloaded (too many large requests), failed.",
            ("endpoint", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "queuegate_admission_review_seconds",
            "Time from the end of the request headers to the response.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "queuegate_admission_reviews_in_flight",
            "Requests in progress.",
            registry=self.registry,
        )
        Gauge(
            "queuegate_admission_certificate_expires_timestamp_seconds",
            "Expiry of the certificate in use, in Unix seconds.",
            registry=self.registry,
        ).set_function(lambda: certificate.expires)
        self.registry.register(_Reloads("settings", "the ConfigMaps", settings))
        self.registry.register(_Reloads("certificate", "the certificate", certificate))


class _Reloads(Collector):
    """Exports the number of a watched value's reloads, excluding the initial load."""

    def __init__(self, name: str, what: str, watched: WatchedValue[Any, Any]) -> None:
        self._name = f"queuegate_admission_{name}_reloads"
        self._text = f"Reloads of {what}, by result."
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Yield the current counts."""
        reloads = CounterMetricFamily(self._name, self._text, labels=("result",))
        reloads.add_metric(("success",), self._watched.reloads - 1)
        reloads.add_metric(("failure",), self._watched.failures)
        yield reloads


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Webhook:
    """Handles admission reviews."""

    settings: Callable[[], YuniKornSettings]
    """Returns the current settings."""
    namespaces: NamespaceCache | None
    """The cache of namespace annotations; None to ignore namespace annotations."""
    metrics: AdmissionMetrics
    policy_options: FormatOptions
    """How to read the policies in ConfigMaps."""
    endpoints: Sequence[Endpoint]
    """Further endpoints."""
    verifies_clients: bool
    """Whether clients without an accepted certificate are rejected."""
    has_yunikorn_duties: bool
    """Whether new pods get what YuniKorn's own admission controller adds."""
    groups: RequesterGroups | None
    """The requesters' groups for the annotation; None for those in the requests."""
    parsing: asyncio.Lock
    """Held while a child process parses a ConfigMap or the policy, whose memory must not add up."""
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def routes(self) -> list[web.RouteDef]:
        """Return the web application's routes."""
        return [
            self._review_route("/mutate", partial(self._decide, self._mutate, writes=True)),
            self._review_route("/validate", partial(self._decide, verify, writes=False)),
            self._review_route("/validate-conf", self._validate_configuration),
            *(self._route(path, partial(self._answer, handle)) for path, handle in self.endpoints),
        ]

    async def _decide(
        self, rule: _Rule, request: AdmissionRequest, deadline: float, *, writes: bool
    ) -> AdmissionResponse:
        annotations: Mapping[str, str] = {}
        if self.namespaces is not None and concerns(request):
            try:
                name = request.namespace or DEFAULT_NAMESPACE
                annotations = await self.namespaces.annotations(name)
            except NamespaceError as error:
                return deny(f"the namespace cannot be looked up: {error}")
        settings, groups = self.settings(), self.groups
        if groups is None:
            return rule(request, settings, annotations, None)
        try:
            return rule(request, settings, annotations, UNKNOWN_GROUPS)
        except GroupsNeeded:
            try:
                own = await groups.of(
                    request, writes=writes, verified=self.verifies_clients, deadline=deadline
                )
            except CannotResolve as error:
                return deny(str(error))
        return rule(request, settings, annotations, own)

    def _mutate(
        self,
        request: AdmissionRequest,
        settings: YuniKornSettings,
        namespace_annotations: Mapping[str, str],
        own: OwnGroups | None,
    ) -> AdmissionResponse:
        response = decide(request, settings, namespace_annotations, own)
        if self.has_yunikorn_duties:
            return add_duties(request, settings, namespace_annotations, response)
        return response

    async def _validate_configuration(
        self, request: AdmissionRequest, deadline: float
    ) -> AdmissionResponse:
        if not concerns_config_map(request):
            return ALLOWED
        try:
            async with asyncio.timeout_at(deadline) as limit, self.parsing:
                return await check_config_map(request, self.policy_options)
        except TimeoutError:
            if not limit.expired():
                raise
            message = (
                "the ConfigMap was not checked in time, because others are being checked, or a"
                " policy is being loaded"
            )
            raise RequestRefusal(503, "overloaded", message) from None

    def _review_route(self, path: str, review: _Review) -> web.RouteDef:
        return self._route(path, partial(self._respond, review))

    def _route(self, path: str, respond: _Responder) -> web.RouteDef:
        endpoint = path.removeprefix("/")
        slots = asyncio.Semaphore(LARGE_BODIES)

        async def handle(request: web.Request) -> web.Response:
            started = time.perf_counter()
            allotted = seconds_to_answer(request.query.get("timeout"))
            deadline = asyncio.get_running_loop().time() + allotted
            with self.metrics.in_flight.track_inprogress():
                try:
                    async with received_body(slots, request) as body:
                        response, outcome = await _answered(respond(body, deadline))
                        await write_response(request, response)
                except RequestRefusal as error:
                    response = error_response(error.status, str(error))
                    outcome = error.outcome
            self.metrics.reviews.labels(endpoint, outcome).inc()
            self.metrics.seconds.labels(endpoint).observe(time.perf_counter() - started)
            return response

        return web.post(path, handle)

    async def _answer(
        self, handle: Handle, body: bytes, deadline: float
    ) -> tuple[web.Response, str]:
        """Answer a request to a further endpoint."""
        try:
            async with asyncio.timeout_at(deadline + _BACKSTOP_SECONDS) as backstop:
                answer = await handle(body, verified=self.verifies_clients, deadline=deadline)
        except TimeoutError:
            if not backstop.expired():
                raise
            message = "no decision within the API server's time limit"
            raise RequestRefusal(503, "failed", message) from None
        return web.Response(body=answer.content, content_type=JSON), answer.outcome

    async def _respond(
        self, review: _Review, body: bytes, deadline: float
    ) -> tuple[web.Response, str]:
        """Answer a request with a review."""
        reviewed = await self._read(body)
        decision = await review(reviewed, deadline)
        content = write_review(reviewed.uid, decision)
        response = web.Response(body=content, content_type=JSON)
        if decision.allowed:
            return response, "patched" if decision.patch else "allowed"
        _LOG.info(
            "refused",
            extra={
                "uid": reviewed.uid,
                "user": reviewed.user,
                "kind": reviewed.kind,
                "namespace": reviewed.namespace,
                "reason": decision.message[:_MAX_LOGGED_MESSAGE],
            },
        )
        return response, "denied"

    async def _read(self, body: bytes) -> AdmissionRequest:
        if is_small(body):
            return read_review(body)
        async with self._turn:
            # Decoding each large body takes milliseconds, so let other tasks run in between.
            await asyncio.sleep(PAUSE_SECONDS)
            return read_review(body)


async def _answered(responding: Awaitable[tuple[web.Response, str]]) -> tuple[web.Response, str]:
    """Return the response and the outcome for metrics, or those of an error.

    Raises RequestRefusal.
    """
    try:
        return await responding
    except RequestRefusal:
        raise
    except MalformedReview as error:
        return error_response(400, str(error)), "malformed"
    except Exception:
        error_id = uuid4().hex
        _LOG.exception("review failed", extra={"failure": error_id})
        return error_response(500, f"internal error {error_id}"), "failed"
