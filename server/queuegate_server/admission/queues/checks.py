"""Determines what must hold before an object is accepted. Pure.

When an object is created, every name in it is checked. When it changes, only names that are new in
their place are checked, so that old objects stay editable and their finalizers work.
"""

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Final

from queuegate_server.admission.queues.kinds import POD, Kind
from queuegate_server.admission.queues.model import (
    Obstacle,
    QueueName,
    QueueReview,
    RequiredCheck,
    Requirements,
)
from queuegate_server.admission.queues.names import InvalidQueueName, QueueNames
from queuegate_server.admission.queues.node_pools import owners_of, unknown_projects
from queuegate_server.admission.queues.placeholders import (
    is_placeholder,
    without_queue_of_application,
)
from queuegate_server.admission.queues.places import SUBMIT, Places, enforced_mode
from queuegate_server.admission.queues.walk import TooComplex, find_names
from queuegate_server.admission.server.webhook_limits import MAX_QUEUES
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import YUNIKORN, Mode

UNQUEUED: Final = "unqueued"
"""A placeholder for the scheduler in checks of objects that do not name a queue."""
_CREATE: Final = "CREATE"
_UPDATE: Final = "UPDATE"
_UNCHECKED: Final = frozenset({"scale", "eviction", "ephemeralcontainers"})
"""Subresources that cannot name a queue."""
_METADATA: Final = "metadata"
_NAMELESS: Final = frozenset(
    {
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
    }
)
"""Metadata members that do not name a queue."""
_INDEX: Final = re.compile(r"\[[0-9]+\]")
_OBJECT: Final = "the object"


def requirements(
    review: QueueReview,
    settings: QueueChecks,
    places: Places,
    names: Callable[[], QueueNames],
    is_processed: Callable[[str], bool] = lambda _: True,
) -> Generator[None, None, Requirements]:
    """Determine in short steps what must hold before a request is accepted.

    Args:
        review: The request.
        settings: The settings, whose mode is not `off`.
        places: Where the schedulers read names.
        names: Returns the names of the policy's queues. Called only after the search, because the
            policy may be replaced during a pause.
        is_processed: Returns whether YuniKorn's admission controller makes YuniKorn the scheduler
            of the pods in a namespace.
    """
    if review.operation not in (_CREATE, _UPDATE) or review.subresource in _UNCHECKED:
        return Requirements()
    kind = (review.group, review.kind)
    if kind == POD and not is_processed(review.namespace) and not _is_for_yunikorn(review.new):
        # By now, mutating webhooks have run, and the scheduler of a pod cannot change.
        places = places.elsewhere()
    try:
        found = yield from _new_names(kind, review, settings, places)
        before: list[QueueName] = []
        new = found
        if review.operation == _UPDATE:
            before = yield from _names_before(kind, review.old, settings, places)
            known = {_identity(each) for each in before}
            new = [each for each in found if _identity(each) not in known]
        _limit_queues(new)
    except TooComplex as error:
        # The names are unknown, so any scheduler may read one.
        mode = enforced_mode(settings, places)
        if mode is Mode.OFF or _names_the_same(review, settings):
            return Requirements()
        return Requirements(obstacles=(Obstacle("", _OBJECT, str(error), mode),))
    if is_placeholder(review, settings):
        # The pod belongs to an application, to which `unqueued` applied when it was started.
        own = without_queue_of_application(review, new)
        return _checks(own, review.namespace, places, names())
    checks = _checks(new, review.namespace, places, names())
    if _has_queue(found, places):
        return checks
    had_queue = _has_queue(before, places)
    unqueued = _without_queue(review, kind, settings, places, had_queue=had_queue)
    return Requirements(
        (*checks.checks, *unqueued.checks), (*checks.obstacles, *unqueued.obstacles)
    )


def _is_for_yunikorn(pod: Mapping[str, Any] | None) -> bool:
    """Return whether YuniKorn schedules a pod (`GeneralPodFilter` of its k8shim)."""
    specification = (pod or {}).get("spec")
    return not isinstance(specification, dict) or specification.get("schedulerName") == YUNIKORN


def _new_names(
    kind: Kind, review: QueueReview, settings: QueueChecks, places: Places
) -> Generator[None, None, list[QueueName]]:
    """Return the names in the new object. Raises TooComplex."""
    if review.fault:
        raise TooComplex(review.fault)
    return (yield from _names(kind, review.new, review.old, settings, places))


def _names(
    kind: Kind,
    value: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None,
    settings: QueueChecks,
    places: Places,
) -> Generator[None, None, list[QueueName]]:
    """Return the names in an object, which is `old` itself or replaces it. Raises TooComplex."""
    found = []
    projects = unknown_projects(settings.schedulers.kai, owners_of(old))
    for name in find_names(kind, value or {}, places, projects):
        if name is not None:
            found.append(name)
        yield
    return found


def _names_before(
    kind: Kind, old: Mapping[str, Any] | None, settings: QueueChecks, places: Places
) -> Generator[None, None, list[QueueName]]:
    """Return the names in the old object. If it cannot be searched, all names count as new."""
    try:
        return (yield from _names(kind, old, old, settings, places))
    except TooComplex:
        return []


def _has_queue(found: Iterable[QueueName], places: Places) -> bool:
    """Return whether any of the names is read by a scheduler whose names are checked."""
    return any(each.is_read and places.modes[each.scheduler] is not Mode.OFF for each in found)


def _names_the_same(review: QueueReview, settings: QueueChecks) -> bool:
    """Return whether a request cannot change a name, because only members without names changed.
    This allows users to remove the finalizers of an object that is too complex to search.
    """
    new, old = review.new, review.old
    if new is None or old is None:
        return False
    kai = settings.schedulers.kai
    if kai is not None and kai.project_label and not owners_of(new) <= owners_of(old):
        return False  # KAI may use the project of a new owner
    try:
        return _rest(new, {_METADATA}) == _rest(old, {_METADATA}) and _rest(
            new.get(_METADATA), _NAMELESS
        ) == _rest(old.get(_METADATA), _NAMELESS)
    except RecursionError:
        return False


def _rest(value: object, without: Collection[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {name: member for name, member in value.items() if name not in without}


def _limit_queues(found: Iterable[QueueName]) -> None:
    """Raise TooComplex if there are too many different queues."""
    queues = {(each.scheduler, each.name, each.template) for each in found}
    if len(queues) > MAX_QUEUES:
        raise TooComplex(f"the object names more than {MAX_QUEUES} queues")


def _identity(found: QueueName) -> tuple[str, str, str, str]:
    """Return a key that finds a name in the old object, even if list items have moved."""
    return found.scheduler, _INDEX.sub("[]", found.where), found.name, found.text


def _without_queue(
    review: QueueReview, kind: Kind, settings: QueueChecks, places: Places, *, had_queue: bool
) -> Requirements:
    """Apply `unqueued` to an object of a listed kind that does not name a queue."""
    unqueued = settings.unqueued
    is_new = review.operation == _CREATE and not review.subresource
    if unqueued == "allow" or kind not in places.kinds or not (is_new or had_queue):
        return Requirements()
    if unqueued == "deny":
        message = "the object names no queue, which admission.queues.unqueued does not allow"
        return Requirements(obstacles=(Obstacle(UNQUEUED, _OBJECT, message, settings.mode),))
    check = RequiredCheck(
        UNQUEUED, "", "admission.queues.unqueued", unqueued, SUBMIT, settings.mode
    )
    return Requirements((check,))


def _checks(
    found: Sequence[QueueName], namespace: str, places: Places, names: QueueNames
) -> Requirements:
    checks: dict[tuple[str, object], RequiredCheck] = {}
    obstacles: list[Obstacle] = []
    read: dict[str, dict[str, str]] = {}  # the path by place and scheduler
    joined = {(each.scheduler, each.where) for each in found if each.is_joined}
    for each in found:
        mode = places.modes[each.scheduler]
        if mode is Mode.OFF:
            continue
        try:
            path = names.path(each, namespace)
        except InvalidQueueName as error:
            obstacles.append(Obstacle(each.scheduler, each.where, str(error), mode))
            continue
        read.setdefault(each.where, {})[each.scheduler] = path
        # If several places name the same queue, keep one where the mode is deny rather than warn.
        key = (path, each.access)
        if key not in checks or (mode is Mode.DENY and checks[key].mode is not Mode.DENY):
            checks[key] = RequiredCheck(
                each.scheduler,
                each.name,
                each.where,
                path,
                each.access,
                mode,
                each.scheduler_field,
                each.template,
            )
    return Requirements(
        tuple(
            each._replace(
                is_one_of_several=len({*read[each.where].values()}) > 1,
                is_joined=(each.scheduler, each.where) in joined,
            )
            for each in checks.values()
        ),
        tuple(obstacles),
    )
