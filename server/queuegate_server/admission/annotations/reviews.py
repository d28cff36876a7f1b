"""The endpoints /mutate, /validate and /validate-conf, which YuniKorn's own webhook also has."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from queuegate_server.admin.bodies import RequestRefusal
from queuegate_server.admission.annotations.config_map import check_config_map, concerns_config_map
from queuegate_server.admission.annotations.namespaces import NamespaceCache, NamespaceError
from queuegate_server.admission.annotations.requester_groups import CannotResolve, RequesterGroups
from queuegate_server.admission.annotations.requests import read_review
from queuegate_server.admission.annotations.rules import (
    DEFAULT_NAMESPACE,
    UNKNOWN_GROUPS,
    AdmissionRequest,
    GroupsNeeded,
    OwnGroups,
    concerns,
    decide,
    verify,
)
from queuegate_server.admission.annotations.yunikorn_duties import add_duties
from queuegate_server.admission.annotations.yunikorn_settings import YuniKornSettings
from queuegate_server.admission.server.endpoints import REVIEWS, Answer, Endpoint
from queuegate_server.admission.server.review import ALLOWED, AdmissionResponse, deny, write_review
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.runtime.pacing import pause

_LOG = logging.getLogger("queuegate_server.admission")
_MAX_LOGGED_MESSAGE: Final = 1_000

_Rule = Callable[
    [AdmissionRequest, YuniKornSettings, Mapping[str, str], OwnGroups | None], AdmissionResponse
]
"""Reviews a request as `rules.decide` does."""


class _Review(Protocol):
    """Reviews a request. The arguments are those of `endpoints.Handle`."""

    async def __call__(
        self, request: AdmissionRequest, *, verified: bool, deadline: float
    ) -> AdmissionResponse: ...


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnnotationReviews:
    """Reviews the user info annotation, and the scheduler's configuration."""

    settings: Callable[[], YuniKornSettings]
    """Returns the current settings."""
    namespaces: NamespaceCache | None
    """The cache of namespace annotations; None to ignore namespace annotations."""
    policy_options: FormatOptions
    """How to read the policies in ConfigMaps."""
    has_yunikorn_duties: bool
    """Whether new pods get what YuniKorn's own admission controller adds."""
    groups: RequesterGroups | None
    """The requesters' groups for the annotation; None to use those in the requests."""
    parsing: asyncio.Lock
    """The lock held while a child process parses a ConfigMap or the policy, so that only one such
    process uses memory at a time.
    """
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints. Their lookups have their own time limits."""
        reviews: Mapping[str, _Review] = {
            "/mutate": partial(self._decide, self._mutate, writes=True),
            "/validate": partial(self._decide, verify, writes=False),
            "/validate-conf": self._validate_configuration,
        }
        return [
            Endpoint(path, partial(self._answer, review), is_cancelled=False)
            for path, review in reviews.items()
        ]

    async def _decide(
        self,
        rule: _Rule,
        request: AdmissionRequest,
        *,
        writes: bool,
        verified: bool,
        deadline: float,
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
                own = await groups.of(request, writes=writes, verified=verified, deadline=deadline)
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
        self, request: AdmissionRequest, *, verified: bool, deadline: float
    ) -> AdmissionResponse:
        del verified
        if not concerns_config_map(request):
            return ALLOWED
        try:
            async with asyncio.timeout_at(deadline) as limit, self.parsing:
                return await check_config_map(request, self.policy_options)
        except TimeoutError:
            if not limit.expired():
                raise
            message = (
                "the ConfigMap was not checked in time, because other ConfigMaps are being checked,"
                " or a policy is being loaded"
            )
            raise RequestRefusal(503, "overloaded", message) from None

    async def _answer(
        self, review: _Review, body: bytes, *, verified: bool, deadline: float
    ) -> Answer:
        reviewed = await self._read(body)
        decision = await review(reviewed, verified=verified, deadline=deadline)
        content = write_review(reviewed.uid, decision)
        if decision.allowed:
            return Answer(content, "patched" if decision.patch else "allowed")
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
        return Answer(content, "denied")

    async def _read(self, body: bytes) -> AdmissionRequest:
        if REVIEWS.is_small(body):
            return read_review(body)
        async with self._turn:
            # Decoding each large body takes milliseconds, so let other tasks run in between.
            await pause()
            return read_review(body)
