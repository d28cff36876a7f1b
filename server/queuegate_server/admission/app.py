"""The webhook's endpoints: bytes of a review in, bytes of a review out, over starlette.

What cannot be answered is an HTTP error; with the failure policy `Fail` the API server
then refuses the request.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from queuegate.policy.acl import AclNames
from queuegate_server.admission.config_map import check_config_map
from queuegate_server.admission.current import CurrentSettings
from queuegate_server.admission.metrics import AdmissionMetrics
from queuegate_server.admission.namespaces import Namespaces, NamespaceUnknown
from queuegate_server.admission.review import MalformedReview, Review, read_review, write_review
from queuegate_server.admission.rules import DEFAULT_NAMESPACE, Verdict, concerns, decide, verify

_LOG = logging.getLogger("queuegate_server.admission")
_JSON: Final = "application/json"

Answer = Callable[[Review], Awaitable[tuple[Verdict, Sequence[str]]]]


class _Refused(Exception):
    """The request gets no review for an answer."""

    def __init__(self, status: int, outcome: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request may cost."""

    body_bytes: int = 8 * 1024 * 1024
    """Two objects of the size that the API server takes, and what stands around them."""
    body_seconds: float = 5.0
    """How long the body may take to arrive."""


class Webhook:
    """Answers reviews with the current settings. Used from one event loop."""

    def __init__(
        self,
        current: CurrentSettings,
        namespaces: Namespaces,
        metrics: AdmissionMetrics,
        acl_names: AclNames,
        bounds: Bounds,
    ) -> None:
        """Take the parts; `acl_names` are the names that ACLs of queues may list."""
        self._current = current
        self._namespaces = namespaces
        self._metrics = metrics
        self._acl_names = acl_names
        self._bounds = bounds
        # A queues.yaml takes a thread and up to seconds; reviews of pods must not wait.
        self._checks = asyncio.Semaphore(2)

    def app(self) -> Starlette:
        """Return the web application."""
        return Starlette(
            routes=[
                self._route("/mutate", self._mutate),
                self._route("/validate", self._validate),
                self._route("/validate-conf", self._validate_configuration),
            ]
        )

    async def _mutate(self, review: Review) -> tuple[Verdict, Sequence[str]]:
        return await self._decided(review, decide), ()

    async def _validate(self, review: Review) -> tuple[Verdict, Sequence[str]]:
        return await self._decided(review, verify), ()

    async def _decided(self, review: Review, rule: Callable[..., Verdict]) -> Verdict:
        request = review.request
        if not concerns(request):
            return Verdict(allowed=True)
        try:
            annotations = await self._namespaces.annotations(request.namespace or DEFAULT_NAMESPACE)
        except NamespaceUnknown as error:
            return Verdict(allowed=False, message=f"the namespace cannot be looked up: {error}")
        return rule(request, self._current.settings, annotations)

    async def _validate_configuration(self, review: Review) -> tuple[Verdict, Sequence[str]]:
        async with self._checks:
            return await asyncio.to_thread(check_config_map, review, self._acl_names)

    def _route(self, path: str, answer: Answer) -> Route:
        endpoint = path.removeprefix("/")

        async def handle(request: Request) -> Response:
            started = time.perf_counter()
            with self._metrics.in_flight.track_inprogress():
                response, outcome = await self._answered(request, answer)
            self._metrics.reviews.labels(endpoint, outcome).inc()
            self._metrics.seconds.labels(endpoint).observe(time.perf_counter() - started)
            return response

        return Route(path, handle, methods=["POST"])

    async def _answered(self, request: Request, answer: Answer) -> tuple[Response, str]:
        try:
            body = await self._body(request)
            review = read_review(body)
            verdict, warnings = await answer(review)
            content = write_review(review.uid, verdict, warnings)
        except _Refused as error:
            return _text(error.status, str(error)), error.outcome
        except MalformedReview as error:
            return _text(400, str(error)), "malformed"
        except ClientDisconnect:
            return _text(400, "the body ended early"), "disconnected"
        except Exception:
            number = uuid4().hex
            _LOG.exception("a review failed", extra={"failure": number})
            return _text(500, f"internal error {number}"), "failed"
        if not verdict.allowed:
            _LOG.info(
                "refused",
                extra={
                    "uid": review.uid,
                    "user": review.request.user,
                    "kind": review.request.kind,
                    "namespace": review.request.namespace,
                    "reason": verdict.message[:1000],
                },
            )
            return Response(content, media_type=_JSON), "denied"
        return Response(content, media_type=_JSON), "patched" if verdict.patch else "allowed"

    async def _body(self, request: Request) -> bytes:
        """Read the body within the bounds on its size and on the time it takes."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise _Refused(415, "malformed", f"the content type must be {_JSON}")
        most = self._bounds.body_bytes
        too_large = _Refused(413, "too_large", f"the body is longer than {most} bytes")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise too_large
        parts = bytearray()
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                async for part in request.stream():
                    parts += part
                    if len(parts) > most:
                        raise too_large
        except TimeoutError:
            raise _Refused(408, "slow", "the body took too long") from None
        return bytes(parts)


def _text(status: int, message: str) -> Response:
    # A connection with the rest of a body in it is of no further use.
    return Response(
        f"{message}\n", status, media_type="text/plain", headers={"Connection": "close"}
    )
