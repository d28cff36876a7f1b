"""Reads queues from fair-scheduler.xml.

Follows Hadoop's AllocationFileLoaderService and AllocationFileQueueParser.
"""

from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR, parent_path, similar_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.suspicious_names import intended_key
from queuegate_server.formats.xml_reader import Element, read_xml
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.scheduler_file import QueueEntry, SchedulerFile
from queuegate_server.formats.yarn.site import NOBODY
from queuegate_server.formats.yarn.variables import LocatedText

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


def read_fair_scheduler(
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
    """Reads the queues of one file. Later elements of a queue add to the earlier ones."""

    def __init__(self, diagnostics: Diagnostics, top: Element) -> None:
        self._diagnostics = diagnostics
        self._queues = {ROOT: QueueEntry(ROOT, top)}
        self._leaves: dict[str, int] = {}  # Lines by queue path.

    def read(self, top_level: list[Element]) -> SchedulerFile:
        """Read the queues below the root, which a file may leave out. Does not recurse."""
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
        """Put a queue on the stack, unless its name is not valid."""
        name = element.attributes.get("name", "").strip()
        if not name:
            self._diagnostics.add(element, finding("queue-element-without-name"), above)
        elif SEPARATOR in name:
            self._diagnostics.add(element, finding("dot-in-queue-name", name=quoted(name)), above)
        else:
            stack.append((element, f"{above}{SEPARATOR}{name}"))

    def _read_type(self, element: Element, queue: QueueEntry) -> None:
        """Determine whether a queue is a parent. Hadoop also treats queues with reservations as
        parents.
        """
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
        """Read a queue's type and ACLs, without the queues below it."""
        queue = self._queues.setdefault(path, QueueEntry(path, element))
        self._read_type(element, queue)
        if queue.position is not element and path != ROOT:
            is_both = queue.is_parent and path in self._leaves
            merged, line = "their ACLs are" if is_both else "the two are", queue.position.line
            found = finding("queue-declared-twice", queue=quoted(path), line=line, merged=merged)
            self._diagnostics.add(element, found, path)
        queue.position = element
        for child in element.children:
            if child.name in FAIR_ACLS:
                self._read_acl(child, FAIR_ACLS[child.name], queue)
            elif child.name not in _IN_QUEUE and not _is_queue(child):
                _report_unknown(child, self._diagnostics, path)

    def _read_acl(self, element: Element, attribute: str, queue: QueueEntry) -> None:
        """Set an attribute of a queue to an ACL's text, or to an ACL that lists nobody if Hadoop
        would fail or read only a part of the text.
        """
        found = None
        text = element.text
        if element.children or not element.is_plain:
            found = finding("acl-element-with-markup", name=element.name)
            text = NOBODY
        elif not text:
            found = finding("empty-acl-element", name=element.name)
            text = NOBODY
        elif getattr(queue, attribute) is not None:
            found = finding("acl-element-repeated", name=element.name)
        if found:
            self._diagnostics.add(element, found, queue.path)
        setattr(queue, attribute, LocatedText(element.line, element.column, text))
