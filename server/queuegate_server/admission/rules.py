"""Who may set the annotation, what is added where it is missing, what must not change. Pure.

The order of the questions is YuniKorn's admission controller's; where we answer
differently on purpose, `tests/vectors/DEVIATIONS.md` says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from queuegate import user_info
from queuegate_server.admission.settings import AdmissionSettings
from queuegate_server.admission.workloads import (
    METADATA,
    POD,
    REPLICA_SET,
    Patch,
    PodMetadata,
    UnreadableObject,
    pod_metadata,
)

BINDING: Final = "Binding"
DEFAULT_NAMESPACE: Final = "default"
UPDATE: Final = "UPDATE"
_SETS_NOTHING: Final = frozenset({"DELETE", "CONNECT"})
_ENABLE: Final = "yunikorn.apache.org/namespace.enableYuniKorn"
_GENERATE_APPLICATION_ID: Final = "yunikorn.apache.org/namespace.generateAppId"
_SCHEDULER: Final = ("app", "yunikorn")
_CHANGED: Final = "user info annotation change is not allowed"


@dataclass(frozen=True, slots=True)
class Request:
    """What the API server asks about."""

    kind: str
    operation: str
    namespace: str
    user: str
    groups: tuple[str, ...]
    new: object = None
    old: object = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: refused with a message, or allowed, perhaps with a patch."""

    allowed: bool
    message: str = ""
    patch: Patch = ()


ALLOWED: Final = Verdict(allowed=True)


def concerns(request: Request) -> bool:
    """Say whether the request can set the annotation at all; all others are allowed unread."""
    writes_it = request.kind in METADATA or request.kind == BINDING
    return writes_it and request.operation not in _SETS_NOTHING


def decide(
    request: Request, settings: AdmissionSettings, namespace_annotations: Mapping[str, str]
) -> Verdict:
    """Answer a mutating webhook's request.

    `namespace_annotations` are those of the request's namespace, empty if not known.
    """
    if not concerns(request):
        return ALLOWED
    scope = _Scope(request, settings, namespace_annotations)
    try:
        if request.kind == BINDING:
            return _decide_binding(scope)
        if request.operation == UPDATE:
            return _decide_update(scope)
        return _decide_pod(scope) if request.kind == POD else _decide_workload(scope)
    except (UnreadableObject, user_info.InvalidUserInfo) as error:
        return _refused(str(error))


def verify(
    request: Request, settings: AdmissionSettings, namespace_annotations: Mapping[str, str]
) -> Verdict:
    """Answer a validating webhook's request: is the object what `decide` would have left?

    Asked after all mutating webhooks, others' included. Never returns a patch.
    """
    verdict = decide(request, settings, namespace_annotations)
    if verdict.allowed:
        if verdict.patch:
            return _refused("user info annotation is missing; the mutating webhook adds it")
        return verdict
    if request.operation != UPDATE and request.kind != BINDING and concerns(request):
        try:
            set_by_decide = _own(request) == pod_metadata(request.kind, request.new).user_info
        except (UnreadableObject, user_info.InvalidUserInfo):
            return verdict
        if set_by_decide:
            return ALLOWED
    return verdict


@dataclass(frozen=True, slots=True)
class _Scope:
    """A request and what decides about it."""

    request: Request
    settings: AdmissionSettings
    namespace_annotations: Mapping[str, str]

    @property
    def namespace(self) -> str:
        return self.request.namespace or DEFAULT_NAMESPACE

    def processed(self) -> bool:
        """Whether the namespace is looked at."""
        enabled = self.namespace_annotations.get(_ENABLE)
        if enabled is not None:
            return enabled == "true"
        processed, bypassed = self.settings.process_namespaces, self.settings.bypass_namespaces
        return (not processed or processed.match(self.namespace)) and not bypassed.match(
            self.namespace
        )

    def labelled(self) -> bool:
        """Whether what is made in the namespace gets an application id."""
        generated = self.namespace_annotations.get(_GENERATE_APPLICATION_ID)
        if generated is not None:
            return generated == "true"
        wanted, unwanted = self.settings.label_namespaces, self.settings.no_label_namespaces
        return (not wanted or wanted.match(self.namespace)) and not unwanted.match(self.namespace)

    def covers(self, pod: PodMetadata) -> bool:
        """Whether the pod is, or will be, part of an application."""
        return self.processed() and (pod.has_application_id or self.labelled())

    def from_system_user(self) -> bool:
        return self.settings.system_users.match(self.request.user)

    def may_set(self) -> bool:
        """Whether the requester may name whom she likes."""
        settings = self.settings
        return (
            settings.bypass_auth
            or (settings.trust_controllers and self.from_system_user())
            or settings.external_users.match(self.request.user)
            or any(settings.external_groups.match(group) for group in self.request.groups)
        )


def _decide_pod(scope: _Scope) -> Verdict:
    pod = pod_metadata(POD, scope.request.new)
    # Before the namespace is asked about: moving a pod elsewhere is no way around.
    refused = _check(scope, pod)
    if refused:
        return refused
    label, scheduler = _SCHEDULER
    if pod.labels.get(label) == scheduler or not scope.processed():
        return ALLOWED
    return _with_annotation(scope, pod)


def _decide_workload(scope: _Scope) -> Verdict:
    if scope.request.kind == REPLICA_SET and scope.from_system_user():
        return ALLOWED
    pod = pod_metadata(scope.request.kind, scope.request.new)
    if not scope.covers(pod):
        return ALLOWED
    return _check(scope, pod) or _with_annotation(scope, pod)


def _decide_binding(scope: _Scope) -> Verdict:
    """The annotations of a binding are written over those of the pod, which is not told."""
    if pod_metadata(POD, scope.request.new).user_info is None or not scope.processed():
        return ALLOWED
    return _refused(_CHANGED)


def _decide_update(scope: _Scope) -> Verdict:
    kind = scope.request.kind
    new = pod_metadata(kind, scope.request.new)
    old = pod_metadata(kind, scope.request.old)
    if not scope.covers(new):
        return ALLOWED
    # So far nobody has looked at the annotation: it counts as new.
    joins = not scope.covers(old)
    if (new.user_info or "") != (old.user_info or ""):
        return _decide_change(scope, old, new, joins=joins)
    if not joins or _is_own(scope, new):
        return ALLOWED
    if kind == POD:
        return ALLOWED if not new.user_info or scope.may_set() else _refused(_CHANGED)
    return _check(scope, new) or _with_annotation(scope, new)


def _decide_change(scope: _Scope, old: PodMetadata, new: PodMetadata, *, joins: bool) -> Verdict:
    if scope.request.kind == POD:
        return _refused(_CHANGED)
    if joins and (new.user_info is None or _is_own(scope, new)):
        return _with_annotation(scope, new)
    if new.user_info is None:
        # Whoever writes the whole object anew need not know of the annotation.
        return Verdict(allowed=True, patch=new.patch(old.user_info or ""))
    if not scope.may_set():
        return _refused(_CHANGED)
    return _check(scope, new) or ALLOWED


def _check(scope: _Scope, pod: PodMetadata) -> Verdict | None:
    """Refuse an annotation that the requester may not set, or that cannot be read."""
    if pod.user_info is None or scope.settings.bypass_auth:
        return None
    if not scope.may_set():
        user, groups = scope.request.user, ",".join(scope.request.groups)
        return _refused(f"user {user} with groups [{groups}] is not allowed to set user annotation")
    user_info.parse(pod.user_info)
    return None


def _with_annotation(scope: _Scope, pod: PodMetadata) -> Verdict:
    """Add the annotation where it is missing."""
    if pod.user_info is not None:
        return ALLOWED
    if scope.settings.bypass_auth and pod.labels.get(scope.settings.user_label):
        return ALLOWED
    return Verdict(allowed=True, patch=pod.patch(_own(scope.request)))


def _is_own(scope: _Scope, pod: PodMetadata) -> bool:
    return pod.user_info == _own(scope.request)


def _own(request: Request) -> str:
    return user_info.build(request.user, request.groups)


def _refused(message: str) -> Verdict:
    return Verdict(allowed=False, message=message)
