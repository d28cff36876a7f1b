"""Rules for the user info annotation: who may set it, when it is added, and when it may change.
Pure.

Namespace filters determine only where the annotation is added. It is checked in all namespaces,
because YuniKorn trusts it on every pod with `schedulerName: yunikorn`, even in an excluded
namespace or without an application ID. If the annotation is missing, YuniKorn up to 1.9 trusts the
user label, so the label is checked as well.

The rules are applied in the same order as in YuniKorn's admission controller.
`tests/vectors/DEVIATIONS.md` explains the intentional differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from queuegate import user_info
from queuegate.user_info import ANNOTATION
from queuegate_server.admission.annotations.workloads import (
    METADATA,
    POD,
    REPLICA_SET,
    REVISION,
    PodMetadata,
    UnreadableObject,
    pod_metadata,
    revision_values,
)
from queuegate_server.admission.annotations.yunikorn_settings import (
    Patterns,
    YuniKornSettings,
    is_selected,
)
from queuegate_server.admission.server.review import ALLOWED, AdmissionResponse, deny

BINDING: Final = "Binding"
DEFAULT_NAMESPACE: Final = "default"
UPDATE: Final = "UPDATE"
_SETS_NOTHING: Final = frozenset({"DELETE", "CONNECT"})
_ENABLE: Final = "yunikorn.apache.org/namespace.enableYuniKorn"
_GENERATE_APPLICATION_ID: Final = "yunikorn.apache.org/namespace.generateAppId"
_SCHEDULER: Final = ("app", "yunikorn")
_ANNOTATION: Final = "user annotation"
_CHANGED: Final = "user info annotation change is not allowed"
_LABEL_CHANGED: Final = "user label change is not allowed"


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The decoded request from an AdmissionReview."""

    kind: str
    operation: str
    namespace: str
    user: str
    groups: tuple[str, ...]
    new: object = None
    """The object as JSON values, or an UnreadableObject."""
    old: object = None
    uid: str = ""
    """The request's ID, repeated in the response."""
    name: str = ""
    """The object's name; empty if the API server generates it."""


@dataclass(frozen=True, slots=True)
class OwnGroups:
    """The requester's groups for the annotation, if they are not those in the request."""

    written: tuple[str, ...]
    """The groups to write, starting with the primary group."""
    accepted: frozenset[tuple[str, ...]]
    """The lists of groups that the requester's annotation may contain."""


UNKNOWN_GROUPS: Final = OwnGroups((), frozenset())
"""A placeholder for groups that are looked up only if the decision depends on them."""


class GroupsNeeded(Exception):
    """Raised if the decision depends on the requester's groups, and they are UNKNOWN_GROUPS."""


def concerns(request: AdmissionRequest) -> bool:
    """Return whether a request can set the annotation. Other requests are allowed without
    inspection.
    """
    has_annotations = request.kind in METADATA or request.kind in {BINDING, REVISION}
    return has_annotations and request.operation not in _SETS_NOTHING


def decide(
    request: AdmissionRequest,
    settings: YuniKornSettings,
    namespace_annotations: Mapping[str, str],
    own: OwnGroups | None = None,
) -> AdmissionResponse:
    """Review a request for the mutating webhook.

    Args:
        request: The request.
        settings: The settings.
        namespace_annotations: The annotations of the request's namespace, or empty if unknown.
        own: The requester's groups for the annotation; None for those in the request.

    Raises:
        GroupsNeeded: The decision depends on the groups, and `own` is UNKNOWN_GROUPS.
    """
    return _decide(Scope(request, settings, namespace_annotations, own))


def _decide(scope: "Scope") -> AdmissionResponse:
    request = scope.request
    if not concerns(request):
        return ALLOWED
    try:
        if request.kind == BINDING:
            return _decide_binding(scope)
        if request.kind == REVISION:
            return _decide_revision(scope)
        if request.operation == UPDATE:
            return _decide_update(scope)
        return _decide_creation(scope)
    except (UnreadableObject, user_info.InvalidUserInfo) as error:
        return deny(str(error))


def verify(
    request: AdmissionRequest,
    settings: YuniKornSettings,
    namespace_annotations: Mapping[str, str],
    own: OwnGroups | None = None,
) -> AdmissionResponse:
    """Review a request for the validating webhook. Deny it if `decide` would change the object.

    Validating webhooks run after all mutating webhooks, including third-party ones. The response
    never contains a patch. See `decide` for the arguments and exceptions.
    """
    scope = Scope(request, settings, namespace_annotations, own)
    response = _decide(scope)
    if response.allowed:
        if response.patch:
            return deny("user info annotation is missing; the mutating webhook adds it")
        return response
    if request.operation == UPDATE or request.kind not in METADATA:
        return response
    try:
        annotation = pod_metadata(request.kind, request.new).user_info
        if scope.is_own(annotation):
            return ALLOWED
        group = scope.foreign_group(annotation)
    except (UnreadableObject, user_info.InvalidUserInfo):
        return response
    return response if group is None else deny(_no_member(request, group))


@dataclass(frozen=True, slots=True)
class Scope:
    """A request with the applicable settings and namespace annotations."""

    request: AdmissionRequest
    settings: YuniKornSettings
    namespace_annotations: Mapping[str, str]
    _groups: OwnGroups | None = None

    def own(self) -> str:
        """Return the requester's annotation. Raises GroupsNeeded."""
        groups = self._own_groups()
        written = self.request.groups if groups is None else groups.written
        return user_info.build(self.request.user, written)

    def is_own(self, annotation: object) -> bool:
        """Return whether an annotation names the requester, and groups that `own` accepts.

        Raises GroupsNeeded, and InvalidUserInfo if an annotation cannot be the requester's.
        """
        groups = self._own_groups()
        if groups is None:
            return annotation == self.own()
        if not isinstance(annotation, str):
            return False
        info = user_info.parse(annotation)
        return info.user == self.request.user and info.groups in groups.accepted

    def foreign_group(self, annotation: str | None) -> str | None:
        """Return the first group in the requester's annotation that `own` would not list.

        Return None if the annotation names a different user. Raises the same exceptions as
        `is_own`.
        """
        groups = self._own_groups()
        if groups is None or annotation is None:
            return None
        info = user_info.parse(annotation)
        if info.user != self.request.user:
            return None
        own = {name for each in groups.accepted for name in each}
        return next((each for each in info.groups if each not in own), None)

    def _own_groups(self) -> OwnGroups | None:
        if self._groups is UNKNOWN_GROUPS:
            raise GroupsNeeded
        return self._groups

    def is_processed(self) -> bool:
        """Return whether the annotation is added in the request's namespace."""
        settings = self.settings
        return self._selected(_ENABLE, settings.process_namespaces, settings.bypass_namespaces)

    def is_labelled(self) -> bool:
        """Return whether workloads in the request's namespace get an application ID."""
        settings = self.settings
        return self._selected(
            _GENERATE_APPLICATION_ID, settings.label_namespaces, settings.no_label_namespaces
        )

    def _selected(self, annotation: str, wanted: Patterns, unwanted: Patterns) -> bool:
        """Return whether the namespace is selected by its annotation, or by the patterns if the
        annotation is unset.
        """
        stated = self.namespace_annotations.get(annotation)
        if stated is not None:
            return stated == "true"
        return is_selected(self.request.namespace or DEFAULT_NAMESPACE, wanted, unwanted)

    def covers(self, pod: PodMetadata) -> bool:
        """Return whether a pod belongs, or will belong, to a YuniKorn application."""
        return self.is_processed() and (pod.has_application_id or self.is_labelled())

    def adds_to_pod(self, pod: PodMetadata) -> bool:
        """Return whether a new pod gets the annotation, unless it already has one."""
        label, scheduler = _SCHEDULER
        return pod.labels.get(label) != scheduler and self.is_processed()

    def is_from_system_user(self) -> bool:
        """Return whether the requesting user is a Kubernetes controller."""
        return self.settings.system_users.match(self.request.user)

    def may_set(self) -> bool:
        """Return whether the requesting user may set the annotation to any user."""
        settings = self.settings
        return (
            settings.bypass_auth
            or (settings.trust_controllers and self.is_from_system_user())
            or settings.external_users.match(self.request.user)
            or any(settings.external_groups.match(group) for group in self.request.groups)
        )


def _decide_creation(scope: Scope) -> AdmissionResponse:
    kind = scope.request.kind
    if kind == REPLICA_SET and scope.is_from_system_user():
        return ALLOWED
    pod = pod_metadata(kind, scope.request.new)
    added = scope.adds_to_pod(pod) if kind == POD else scope.covers(pod)
    response = _check(scope, pod) or (_with_annotation(scope, pod) if added else ALLOWED)
    return _deny_foreign_label(scope, pod, response)


def _decide_binding(scope: Scope) -> AdmissionResponse:
    """Deny a binding that contains user metadata, because it would replace the pod's metadata
    without review.
    """
    binding = pod_metadata(POD, scope.request.new)
    if binding.user_info is not None:
        return deny(_CHANGED)
    labels = scope.settings.user_labels
    return deny(_LABEL_CHANGED) if any(map(binding.labels.get, labels)) else ALLOWED


def _decide_revision(scope: Scope) -> AdmissionResponse:
    """Deny a ControllerRevision that names a different user.

    StatefulSets create pods from their current revision, so replacing the revision could change
    the pods' user. Revisions are never patched, because controllers compare their bytes.
    """
    request = scope.request
    if scope.may_set():
        return ALLOWED
    keys = (ANNOTATION, *scope.settings.user_labels)
    values = revision_values(request.new, keys)
    if request.operation == UPDATE and values == revision_values(request.old, keys):
        return ALLOWED
    for key, value in values:
        if key == ANNOTATION:
            if not scope.is_own(value):
                return deny(_not_allowed(request, _ANNOTATION))
        elif value != request.user:
            return deny(_not_allowed(request, _label(key)))
    return ALLOWED


def _decide_update(scope: Scope) -> AdmissionResponse:
    kind = scope.request.kind
    new = pod_metadata(kind, scope.request.new)
    old = pod_metadata(kind, scope.request.old)
    covered = scope.covers(new)
    joins = covered and not scope.covers(old)
    response = ALLOWED
    if (new.user_info or "") != (old.user_info or ""):
        response = _decide_change(scope, old, new, covered=covered, joins=joins)
    elif joins and not scope.is_own(new.user_info):
        response = _decide_joining(scope, new)
    return _deny_foreign_label(scope, new, response, None if joins else old)


def _decide_joining(scope: Scope, new: PodMetadata) -> AdmissionResponse:
    # An object that joins an application is treated as new, because its annotation may be missing
    # or may have been set before annotations were checked everywhere.
    if scope.request.kind == POD:
        return ALLOWED if not new.user_info or scope.may_set() else deny(_CHANGED)
    return _check(scope, new) or _with_annotation(scope, new)


def _decide_change(
    scope: Scope, old: PodMetadata, new: PodMetadata, *, covered: bool, joins: bool
) -> AdmissionResponse:
    if scope.request.kind == POD:
        return deny(_CHANGED)
    if joins and (new.user_info is None or scope.is_own(new.user_info)):
        return _with_annotation(scope, new)
    if new.user_info is None:
        # Restore the annotation, because the client may have sent a full replacement without it.
        patch = new.patch(old.user_info or "") if covered else ()
        return AdmissionResponse(allowed=True, patch=patch)
    if not scope.may_set():
        return deny(_CHANGED)
    return _check(scope, new) or ALLOWED


def _check(scope: Scope, pod: PodMetadata) -> AdmissionResponse | None:
    """Deny an annotation that is malformed or that the requesting user may not set."""
    if pod.user_info is None or scope.settings.bypass_auth:
        return None
    if not scope.may_set():
        return deny(_not_allowed(scope.request, _ANNOTATION))
    user_info.parse(pod.user_info)
    return None


def _deny_foreign_label(
    scope: Scope, pod: PodMetadata, response: AdmissionResponse, old: PodMetadata | None = None
) -> AdmissionResponse:
    """Deny a label that names a different user and would be trusted by a scheduler.

    Schedulers trust the label if the pod's annotation is missing or empty. An update may keep a
    label that was already trusted in the old object.
    """
    annotated = bool(response.patch or pod.user_info)
    if annotated or not response.allowed or scope.may_set():
        return response
    before = {} if old is None or old.user_info else old.labels
    for key in scope.settings.user_labels:
        name = pod.labels.get(key)
        if name and name not in {scope.request.user, before.get(key)}:
            return deny(_not_allowed(scope.request, _label(key)))
    return response


def _label(key: str) -> str:
    return f"the label {key} to another user; remove the label"


def _not_allowed(request: AdmissionRequest, what: str) -> str:
    groups = ",".join(request.groups)
    return f"user {request.user} with groups [{groups}] is not allowed to set {what}"


def _with_annotation(scope: Scope, pod: PodMetadata) -> AdmissionResponse:
    """Allow the request, and add the annotation if it is missing."""
    if pod.user_info is not None:
        return ALLOWED
    return AdmissionResponse(allowed=True, patch=pod.patch(scope.own()))


def _no_member(request: AdmissionRequest, group: str) -> str:
    return (
        f"{_ANNOTATION} lists the group {group!a}, but user {request.user} is not, or is no"
        " longer, a member; create the object again"
    )
