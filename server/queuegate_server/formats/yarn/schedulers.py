"""Reads queues and their unparsed ACLs from fair-scheduler.xml and capacity-scheduler.xml.

The reader for fair-scheduler.xml follows Hadoop's AllocationFileLoaderService and
AllocationFileQueueParser.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.created_queues import QueueCreation
from queuegate.policy.names import ROOT, SEPARATOR, parent_path, similar_name
from queuegate_server.formats.diagnostics import Diagnostics, Position, Positioned, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, FAIR_SCHEDULER
from queuegate_server.formats.suspicious_names import intended_key
from queuegate_server.formats.xml_reader import Element, read_xml
from queuegate_server.formats.yarn import overrides
from queuegate_server.formats.yarn.list_entries import ListReader
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.site import ADMINS, ENABLE, NOBODY
from queuegate_server.formats.yarn.templates import (
    ADMIN,
    PREFIX,
    SUBMIT,
    TemplateReader,
    Templates,
    is_literal,
    is_template_acl,
    unlisted_acl,
)
from queuegate_server.formats.yarn.templates import is_read as creates_queues
from queuegate_server.formats.yarn.unlisted_queues import LIST, UnlistedQueues, misspelled_lists
from queuegate_server.formats.yarn.variables import VARIABLE, Text

FAIR_ACLS: Final = {"aclSubmitApps": "submit", "aclAdministerApps": "admin"}
_QUEUE_ELEMENTS: Final = ("queue", "pool")
_IN_QUEUE: Final = frozenset({
    *_QUEUE_ELEMENTS, *FAIR_ACLS,
    "aclAdministerReservations", "aclListReservations", "aclSubmitReservations", "minResources",
    "maxResources", "maxChildResources", "maxContainerAllocation", "maxRunningApps", "maxAMShare",
    "weight", "schedulingPolicy", "schedulingMode", "minSharePreemptionTimeout",
    "fairSharePreemptionTimeout", "fairSharePreemptionThreshold", "allowPreemptionFrom",
    "reservation",
})  # fmt: skip
_TOP_LEVEL: Final = frozenset({
    *_QUEUE_ELEMENTS,
    "user", "queuePlacementPolicy", "defaultQueueSchedulingPolicy", "queueMaxResourcesDefault",
    "queueMaxAppsDefault", "queueMaxAMShareDefault", "userMaxAppsDefault",
    "defaultFairSharePreemptionTimeout", "fairSharePreemptionTimeout",
    "defaultMinSharePreemptionTimeout", "defaultFairSharePreemptionThreshold",
    "defaultQueueSchedulingMode", "queueMaxContainerAllocationDefault", "reservation-agent",
    "reservation-planner", "reservation-policy",
})  # fmt: skip
_PARENT: Final = "parent"
_MAX_DEPTH: Final = 200
_MAX_QUEUES: Final = 1_000_000
_NOT_OF_SITE: Final = (PREFIX, "yarn.app.mapreduce.")
_OTHER_CAPACITY_ACLS: Final = frozenset({
    "acl_application_max_priority", "acl_administer_reservations", "acl_list_reservations",
    "acl_submit_reservations",
})  # fmt: skip


@dataclass(slots=True, eq=False)
class QueueEntry:
    """A queue as configured in a scheduler's file. Unset ACLs are None."""

    path: str
    position: Positioned
    submit: Text | None = None
    admin: Text | None = None
    is_parent: bool = False
    """Whether the queue is marked as a parent, even if it has no children yet."""


@dataclass(slots=True)
class SchedulerFile:
    """The contents of a scheduler's file. Each queue follows its parent."""

    queues: list[QueueEntry] = field(default_factory=list)
    checks_submission_always: bool = False
    has_short_names: bool = False
    """Whether a name without dots refers to the queue with that name anywhere in the tree."""
    templates: Templates = field(default_factory=Templates)
    properties: Mapping[str, Text] = field(default_factory=dict)
    """The properties in a capacity-scheduler.xml and the yarn-site.xml that it overrides."""
    lacks_properties: bool = False
    """Whether an error may hide properties, so that an unset property may be set."""
    lacks_queues: bool = False
    """Whether an error may hide queues, so that a missing queue may exist."""

    def parents(self) -> set[str]:
        """Return the paths of queues that have children or are marked as parents."""
        marked = {queue.path for queue in self.queues if queue.is_parent}
        return marked.union(parent_path(queue.path) for queue in self.queues)


def _read_fair_scheduler(
    data: bytes, diagnostics: Diagnostics, _: Configuration
) -> SchedulerFile | None:
    """Read a fair-scheduler.xml; return None for any other file. Does not use yarn-site.xml."""
    top = read_xml(data, diagnostics)
    if top is None:
        return None
    if top.name != "allocations":
        is_other = top.name == "configuration"
        found = "configuration-for-fair-scheduler" if is_other else "other-root-element"
        diagnostics.add(top, finding(found, name=top.name))
        return None
    for element in top.children:
        if element.name not in _TOP_LEVEL:
            _report_unknown(element, diagnostics)
    queues = [element for element in top.children if element.name in _QUEUE_ELEMENTS]
    return _FairSchedulerReader(diagnostics, top).read(queues)


def _report_unknown(element: Element, diagnostics: Diagnostics, queue: str = "") -> None:
    """Warn about an element that Hadoop ignores. `queue` is its queue's path, if any."""
    is_acl, remedy = "acl" in element.name.lower(), ""
    if is_acl and queue:
        remedy = phrase("write", text=" or ".join(FAIR_ACLS))
    elif is_acl:
        remedy = phrase("inside-a-queue", meant=" or ".join(FAIR_ACLS))
    if diagnostics.remaining_warnings:  # Comparing names takes about 0.1 ms.
        names = _IN_QUEUE | (set() if queue else _TOP_LEVEL)
        known = {each.lower(): each for each in names if not is_acl or "acl" in each}
        similar = known.get(similar_name(element.name.lower(), known), "")
        if meant := intended_key(element.name, *FAIR_ACLS) or similar:
            is_here = queue or meant in _TOP_LEVEL
            remedy = phrase("did-you-mean" if is_here else "inside-a-queue", meant=meant)
    where = "in a queue" if queue else "here"
    found = finding("unknown-element", name=element.name, where=where, remedy=remedy)
    diagnostics.add(element, found, queue)


def _is_queue(element: Element) -> bool:
    """Return whether Hadoop reads an element as a queue: it accepts any suffix of "queue"."""
    return "queue".endswith(element.name) or element.name == "pool"


class _FairSchedulerReader:
    def __init__(self, diagnostics: Diagnostics, top: Element) -> None:
        self._diagnostics = diagnostics
        self._queues = {ROOT: QueueEntry(ROOT, top)}
        self._leaves: dict[str, int] = {}  # Lines by queue path.

    def read(self, top_level: list[Element]) -> SchedulerFile:
        roots = (one for one in top_level if one.attributes.get("name", "").lower() == ROOT)
        if len(top_level) > 1 and (root := next(roots, None)):
            self._diagnostics.add(root, finding("queues-beside-root"), ROOT)
        stack: list[tuple[Element, str]] = []
        for element in reversed(top_level):
            name = element.attributes.get("name", "")
            if name.lower() != ROOT:
                self._push(stack, element, ROOT)
                continue
            stack.append((element, ROOT))
            if name != ROOT:
                self._diagnostics.add(element, finding("root-misspelled", name=quoted(name)), ROOT)
        while stack:
            element, path = stack.pop()
            self._read_queue(element, path)
            for child in reversed(element.children):
                if _is_queue(child):
                    self._push(stack, child, path)
        self._discard_uncertain()
        return SchedulerFile([*self._queues.values()], checks_submission_always=True)

    def _discard_uncertain(self) -> None:
        """Discard queues below a queue that is also a leaf, unless Hadoop certainly creates them.

        Hadoop creates leaves in the order of a hash table, then parents. Each replaces conflicting
        queues, except below root.default.
        """
        causes: dict[str, str] = {}
        for path, queue in [*self._queues.items()]:
            above = parent_path(path)
            if above not in self._leaves and above not in causes:
                continue
            causes[path] = cause = causes.get(above, above)
            if not queue.is_parent or path.startswith(f"{ROOT}.default."):
                del self._queues[path]
                line = self._leaves[cause]
                found = finding("queue-may-be-discarded", queue=quoted(cause), line=line)
                self._diagnostics.add(queue.position, found, path)

    def _push(self, stack: list[tuple[Element, str]], element: Element, above: str) -> None:
        name = element.attributes.get("name", "").strip()
        if not name:
            self._diagnostics.add(element, finding("queue-element-without-name"), above)
        elif SEPARATOR in name:
            self._diagnostics.add(element, finding("dot-in-queue-name", name=quoted(name)), above)
        else:
            stack.append((element, f"{above}{SEPARATOR}{name}"))

    def _read_type(self, element: Element, queue: QueueEntry) -> None:
        is_parent = element.attributes.get("type") == _PARENT
        is_parent = is_parent or any(map(_is_queue, element.children))
        is_reservable = any(child.name == "reservation" for child in element.children)
        if is_parent and is_reservable:
            self._diagnostics.add(element, finding("parent-with-reservation"), queue.path)
        if is_parent or is_reservable:
            queue.is_parent = True
        elif queue.path != ROOT:
            self._leaves[queue.path] = element.line
        for key, value in element.attributes.items():
            if key.lower() == "type" and (key, value) not in {("type", _PARENT), ("type", "leaf")}:
                words = {"key": key, "value": quoted(value), "parent": quoted(_PARENT)}
                self._diagnostics.add(element, finding("unknown-queue-type", **words), queue.path)

    def _read_queue(self, element: Element, path: str) -> None:
        queue = self._queues.setdefault(path, QueueEntry(path, element))
        self._read_type(element, queue)
        if queue.position is not element and path != ROOT:
            is_both = queue.is_parent and path in self._leaves
            merged, line = "their ACLs are" if is_both else "the two are", queue.position.line
            found = finding("queue-declared-twice", queue=quoted(path), line=line, merged=merged)
            self._diagnostics.add(element, found, path)
        queue.position = element
        for child in element.children:
            attribute = FAIR_ACLS.get(child.name)
            if attribute is None:
                if child.name not in _IN_QUEUE and not _is_queue(child):
                    _report_unknown(child, self._diagnostics, path)
            elif child.children or not child.is_plain:
                # Reject it, because Hadoop would fail or read only part of the text.
                found = finding("acl-element-with-markup", name=child.name)
                self._diagnostics.add(child, found, path)
                setattr(queue, attribute, Text(child.line, child.column, NOBODY))
            elif not child.text:
                self._diagnostics.add(child, finding("empty-acl-element", name=child.name), path)
                setattr(queue, attribute, Text(child.line, child.column, NOBODY))
            else:
                if getattr(queue, attribute) is not None:
                    found = finding("acl-element-repeated", name=child.name)
                    self._diagnostics.add(child, found, path)
                setattr(queue, attribute, Text(child.line, child.column, child.text))


def _read_capacity_scheduler(
    data: bytes, diagnostics: Diagnostics, site: Configuration
) -> SchedulerFile | None:
    """Read a capacity-scheduler.xml, merged with yarn-site.xml; None for any other file."""
    configuration = site.copy()
    if not configuration.add(data, diagnostics, is_read=_is_read):
        return None
    properties = configuration.read(diagnostics, is_read=_is_read, is_literal=is_literal)
    scheduler = SchedulerFile(has_short_names=True, properties=properties)
    errors = diagnostics.error_count
    paths = _paths(properties, ListReader(data, diagnostics.file), diagnostics)
    for path, position in paths.items():
        submit, admin = (properties.get(f"{PREFIX}{path}.{acl}") for acl in (SUBMIT, ADMIN))
        scheduler.queues.append(QueueEntry(path, position, submit, admin))
    lists_errors = diagnostics.error_count
    lists = _check_lists(properties, paths, diagnostics)
    is_damaged = diagnostics.error_count > lists_errors
    scheduler.lacks_properties = configuration.is_incomplete or is_damaged
    scheduler.lacks_queues = lists_errors > errors or bool(lists)
    children = Counter(map(parent_path, paths))
    counts = {path: children[path] for path in paths}
    unlisted = UnlistedQueues(paths, lists, diagnostics)
    scheduler.templates = TemplateReader(properties, counts, unlisted, diagnostics).read()
    for queue in scheduler.queues:
        queue.is_parent = scheduler.templates.makes_parent(queue.path)
    _check_keys(properties, paths, scheduler.templates.creation, unlisted, diagnostics)
    unlisted.summarize()
    return scheduler


def _check_lists(
    properties: dict[str, Text], paths: dict[str, Positioned], diagnostics: Diagnostics
) -> Mapping[str, Positioned]:
    """Report missing and misspelled `queues` properties.

    Returns their positions by queue path, including the positions of lists with an unknown
    variable.
    """
    lists: dict[str, Positioned] = {
        path: text
        for path in paths
        if (text := properties.get(f"{PREFIX}{path}.{LIST}")) and VARIABLE.search(text.text)
    }
    has_errors = diagnostics.error_count > 0
    for path, name in misspelled_lists(properties, paths, PREFIX).items():
        lists[path] = text = properties[name]
        found = "queues-misspelled" if len(paths) > 1 else "queues-of-root-misspelled"
        meant = f"{PREFIX}{path}.{LIST}"
        diagnostics.add(text, finding(found, name=quoted(name), meant=meant), path)
    if len(paths) == 1 and ROOT not in lists:
        # Hadoop requires this list, so a file without it is damaged or is a different file.
        lists[ROOT] = properties.get(f"{PREFIX}{ROOT}.{LIST}", Position(1, 1))
        is_site = _is_site(properties, diagnostics.file)
        if not has_errors:
            found = "site-as-scheduler" if is_site else "no-queues"
            diagnostics.add(lists[ROOT], finding(found, key=f"{PREFIX}{ROOT}.{LIST}"))
    return lists


def _is_site(properties: dict[str, Text], file: str) -> bool:
    """Return whether a file is probably a yarn-site.xml: it has YARN properties but no queue."""
    keys = [key for key, text in properties.items() if text.file == file]
    is_site = any(key.startswith("yarn.") and not key.startswith(_NOT_OF_SITE) for key in keys)
    return is_site and not any(key.startswith(f"{PREFIX}{ROOT}.") for key in keys)


def _is_read(name: str) -> bool:
    is_listed = name.rpartition(SEPARATOR)[2] in {LIST, SUBMIT, ADMIN}
    return name.startswith(PREFIX) and (is_listed or creates_queues(name))


def _paths(
    properties: dict[str, Text], lists: ListReader, diagnostics: Diagnostics
) -> dict[str, Positioned]:
    """Return the position of each queue's name, keyed by queue path, parents first."""
    paths: dict[str, Positioned] = {ROOT: Position(1, 1)}
    stack = [ROOT]
    while stack:
        above = stack.pop()
        names = properties.get(f"{PREFIX}{above}.{LIST}")
        if names is None:
            continue
        if above.count(SEPARATOR) >= _MAX_DEPTH:
            diagnostics.add(names, finding("deep-tree", most=_MAX_DEPTH))
            return paths
        if len(paths) > _MAX_QUEUES:
            diagnostics.add(names, finding("too-many-queues", most=_MAX_QUEUES))
            return paths
        children = []
        for entry in lists.entries(names):
            name = entry.text
            path = f"{above}{SEPARATOR}{name}"
            if SEPARATOR in name:
                diagnostics.add(entry, finding("dot-in-listed-name", name=quoted(name)), above)
            elif path in paths:
                diagnostics.add(entry, finding("queue-listed-twice", name=quoted(name)), path)
            else:
                paths[path] = entry
                children.append(path)
        stack += reversed(children)
    return paths


def _check_keys(
    properties: dict[str, Text],
    paths: dict[str, Positioned],
    creation: QueueCreation | None,
    unlisted: UnlistedQueues,
    diagnostics: Diagnostics,
) -> None:
    for key in (ENABLE, ADMINS, *sorted(overrides.KEYS)):
        text = properties.get(key)
        is_here = text is not None and text.file == diagnostics.file
        if is_here and not _is_site(properties, diagnostics.file):
            diagnostics.add(text, finding("property-of-other-file", key=key))
    for key, text in properties.items():
        path, _, last = key.removeprefix(PREFIX).rpartition(SEPARATOR)
        is_here = text.file == diagnostics.file
        if last in {SUBMIT, ADMIN} and not key.startswith(PREFIX) and is_here:
            found = finding("acl-without-prefix", key=quoted(key), meant=f"{PREFIX}QUEUE.{last}")
            diagnostics.add(text, found)
        meant = intended_key(last, SUBMIT, ADMIN)
        if not key.startswith(PREFIX) or not (meant or last.lower().startswith("acl_")):
            continue
        if last in {SUBMIT, ADMIN}:
            if path not in paths and not is_template_acl(key.removeprefix(PREFIX)):
                unlisted.add(text, unlisted_acl(path, last, paths, creation), path)
        elif last not in _OTHER_CAPACITY_ACLS:
            words = {"name": quoted(last), "submit": SUBMIT, "admin": ADMIN}
            remedy = phrase("did-you-mean", meant=meant) if meant else ""
            diagnostics.add(text, finding("unknown-queue-property", remedy=remedy, **words), path)


_Reader = Callable[[bytes, Diagnostics, Configuration], SchedulerFile | None]

SCHEDULERS: Final[Mapping[str, _Reader]] = {
    FAIR_SCHEDULER: _read_fair_scheduler,
    CAPACITY_SCHEDULER: _read_capacity_scheduler,
}
"""File readers by format name. They take the contents, the diagnostics and yarn-site.xml's
properties."""
