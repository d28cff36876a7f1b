"""The allocation file of the fair scheduler -> its queues and their ACLs.

The rules are those of Hadoop's AllocationFileLoaderService and AllocationFileQueueParser.
"""

from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.xml_reader import Element, read_xml
from queuegate_server.formats.yarn.model import QueueEntry, SchedulerFile, Text

SUBMIT: Final = "aclSubmitApps"
ADMIN: Final = "aclAdministerApps"
_OTHER_ACLS: Final = frozenset(
    {"aclAdministerReservations", "aclListReservations", "aclSubmitReservations"}
)
_QUEUE_ELEMENTS: Final = ("queue", "pool")
_TOP_LEVEL_ELEMENTS: Final = frozenset(
    {
        *_QUEUE_ELEMENTS,
        "user",
        "queueMaxResourcesDefault",
        "queueMaxAppsDefault",
        "queueMaxAMShareDefault",
        "userMaxAppsDefault",
        "defaultFairSharePreemptionTimeout",
        "fairSharePreemptionTimeout",
        "defaultMinSharePreemptionTimeout",
        "defaultFairSharePreemptionThreshold",
        "defaultQueueSchedulingPolicy",
        "defaultQueueSchedulingMode",
        "queuePlacementPolicy",
        "queueMaxContainerAllocationDefault",
        "reservation-agent",
        "reservation-planner",
        "reservation-policy",
    }
)


def read_fair_scheduler(data: bytes, diagnostics: Diagnostics) -> SchedulerFile | None:
    """Return the queues of a file, the root first; None if it is no allocation file."""
    top = read_xml(data, diagnostics)
    if top is None:
        return None
    if top.name != "allocations":
        message = f"the top element is <{top.name}>, not <allocations>"
        diagnostics.error(top, message, "use an allocation file of the fair scheduler")
        return None
    for element in top.children:
        if element.name not in _TOP_LEVEL_ELEMENTS:
            message = f"<{element.name}> is unknown here and is ignored"
            diagnostics.warning(element, message, "correct its name or remove it")
    queues = [element for element in top.children if element.name in _QUEUE_ELEMENTS]
    return _Reader(diagnostics, top).read(queues)


class _Reader:
    def __init__(self, diagnostics: Diagnostics, top: Element) -> None:
        self._diagnostics = diagnostics
        self._queues = {ROOT: QueueEntry(ROOT, top)}

    def read(self, top_level: list[Element]) -> SchedulerFile:
        roots = [one for one in top_level if one.attributes.get("name", "").lower() == ROOT]
        if roots and len(top_level) > 1:
            message = "root is not the only top-level queue"
            self._diagnostics.error(roots[0], message, "move the other queues into root", ROOT)
        stack: list[tuple[Element, str]] = []
        for element in reversed(top_level):
            if element in roots:
                if element.attributes["name"] != ROOT:
                    message = f"the root queue is spelled {quoted(element.attributes['name'])}:"
                    message += " Hadoop applies its ACLs to no queue in use"
                    self._diagnostics.error(element, message, "write root in lower case", ROOT)
                stack.append((element, ROOT))
            else:
                self._push(stack, element, ROOT)
        while stack:
            element, path = stack.pop()
            self._read_queue(element, path)
            for child in reversed(element.children):
                # Hadoop asks whether "queue" ends with the name of the element.
                if "queue".endswith(child.name) or child.name == "pool":
                    self._push(stack, child, path)
        return SchedulerFile(
            SUBMIT, ADMIN, checks_submission_always=True, queues=list(self._queues.values())
        )

    def _push(self, stack: list[tuple[Element, str]], element: Element, above: str) -> None:
        name = element.attributes.get("name", "").strip()
        if not name:
            self._diagnostics.error(element, "the queue has no name", 'add name="…"', above)
        elif SEPARATOR in name:
            message = f"the queue name {quoted(name)} contains a dot"
            remedy = "nest the queue in its parent instead"
            self._diagnostics.error(element, message, remedy, above)
        else:
            stack.append((element, f"{above}{SEPARATOR}{name}"))

    def _read_queue(self, element: Element, path: str) -> None:
        queue = self._queues.setdefault(path, QueueEntry(path, element))
        queue.position = element
        for child in element.children:
            if child.name not in {SUBMIT, ADMIN}:
                if "acl" in child.name.lower() and child.name not in _OTHER_ACLS:
                    message = f"<{child.name}> is unknown in a queue and is ignored"
                    self._diagnostics.warning(child, message, f"write {SUBMIT} or {ADMIN}", path)
                continue
            if child.children or not child.is_plain:
                # Hadoop takes the first piece of the text, or fails.
                message = f"<{child.name}> is not plain text"
                remedy = "remove the elements, processing instructions and CDATA sections from it"
                self._diagnostics.error(child, message, remedy, path)
                continue
            if not child.text:
                message = f"<{child.name}> is empty: Hadoop does not load such a file"
                remedy = "for nobody write a single space, or remove the element"
                self._diagnostics.error(child, message, remedy, path)
                continue
            text = Text(child.line, child.column, child.text)
            before = queue.submit if child.name == SUBMIT else queue.admin
            if before is not None:
                message = f"<{child.name}> of this queue is already set above; this one wins"
                self._diagnostics.warning(child, message, "remove one of them", path)
            if child.name == SUBMIT:
                queue.submit = text
            else:
                queue.admin = text
