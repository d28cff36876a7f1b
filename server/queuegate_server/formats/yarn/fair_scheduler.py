"""The allocation file of the fair scheduler -> the queues that it states.

The rules are those of Hadoop's AllocationFileLoaderService and AllocationFileQueueParser.
"""

from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.xml_tree import Element, read
from queuegate_server.formats.yarn.model import Stated, StatedQueue, Text

SUBMIT: Final = "aclSubmitApps"
ADMIN: Final = "aclAdministerApps"
_OTHER_ACLS: Final = frozenset(
    {"aclAdministerReservations", "aclListReservations", "aclSubmitReservations"}
)
_TOP: Final = ("queue", "pool")
_KNOWN_AT_TOP: Final = frozenset(
    {
        *_TOP,
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


def state(data: bytes, file: str, diagnostics: Diagnostics) -> Stated | None:
    """Return the queues of a file, the root first; None if it is no allocation file."""
    document = read(data, file)
    for diagnostic in document.diagnostics:
        diagnostics.add(diagnostic)
    top = document.root
    if top is None:
        return None
    if top.name != "allocations":
        message = f"the top element is <{top.name}>, not <allocations>"
        diagnostics.error(top, message, "give an allocation file of the fair scheduler")
        return None
    for element in top.children:
        if element.name not in _KNOWN_AT_TOP:
            message = f"<{element.name}> has no meaning here and is ignored"
            diagnostics.warning(element, message, "correct its name or remove it")
    queues = [element for element in top.children if element.name in _TOP]
    return _Reader(diagnostics, top).read(queues)


class _Reader:
    def __init__(self, diagnostics: Diagnostics, top: Element) -> None:
        self._diagnostics = diagnostics
        self._queues = {ROOT: StatedQueue(ROOT, top)}

    def read(self, top_level: list[Element]) -> Stated:
        roots = [one for one in top_level if one.attributes.get("name", "").lower() == ROOT]
        if roots and len(top_level) > 1:
            message = "root stands beside other queues"
            self._diagnostics.error(roots[0], message, "put the other queues into root", ROOT)
        waiting: list[tuple[Element, str]] = []
        for element in reversed(top_level):
            if element in roots:
                if element.attributes["name"] != ROOT:
                    message = f"the root queue is spelled {quoted(element.attributes['name'])}:"
                    message += " Hadoop applies its ACLs to no queue in use"
                    self._diagnostics.error(element, message, "write root in lower case", ROOT)
                waiting.append((element, ROOT))
            else:
                self._push(waiting, element, ROOT)
        while waiting:
            element, path = waiting.pop()
            self._take(element, path)
            for child in reversed(element.children):
                # Hadoop asks whether "queue" ends with the name of the element.
                if "queue".endswith(child.name) or child.name == "pool":
                    self._push(waiting, child, path)
        return Stated(SUBMIT, ADMIN, True, list(self._queues.values()))

    def _push(self, waiting: list[tuple[Element, str]], element: Element, above: str) -> None:
        name = element.attributes.get("name", "").strip()
        if not name:
            self._diagnostics.error(element, "a queue has no name", 'write name="…"', above)
        elif SEPARATOR in name:
            message = f"the queue name {quoted(name)} has a dot"
            remedy = "put the queue into its parent instead"
            self._diagnostics.error(element, message, remedy, above)
        else:
            waiting.append((element, f"{above}{SEPARATOR}{name}"))

    def _take(self, element: Element, path: str) -> None:
        queue = self._queues.setdefault(path, StatedQueue(path, element))
        queue.position = element
        for child in element.children:
            if child.name not in {SUBMIT, ADMIN}:
                if "acl" in child.name.lower() and child.name not in _OTHER_ACLS:
                    message = f"<{child.name}> has no meaning in a queue and is ignored"
                    self._diagnostics.warning(child, message, f"write {SUBMIT} or {ADMIN}", path)
                continue
            if child.children or not child.is_plain:
                # Hadoop takes the first piece of the text, or fails.
                message = f"<{child.name}> holds more than a text"
                remedy = "write the ACL without elements, instructions and CDATA sections"
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
                message = f"<{child.name}> of this queue is set above, too: this one counts"
                self._diagnostics.warning(child, message, "remove one of them", path)
            if child.name == SUBMIT:
                queue.submit = text
            else:
                queue.admin = text
