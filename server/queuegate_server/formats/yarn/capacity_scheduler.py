"""capacity-scheduler.xml -> the queues that it states."""

from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_text import Position
from queuegate_server.formats.yarn.hadoop_xml import read_properties
from queuegate_server.formats.yarn.model import Stated, StatedQueue, Text

PREFIX: Final = "yarn.scheduler.capacity."
SUBMIT: Final = "acl_submit_applications"
ADMIN: Final = "acl_administer_queue"
QUEUES: Final = "queues"
_MAX_DEPTH: Final = 200
_MAX_QUEUES: Final = 1_000_000
_NO_ACLS_OF_QUEUES: Final = frozenset(
    {
        "acl_application_max_priority",
        "acl_administer_reservations",
        "acl_list_reservations",
        "acl_submit_reservations",
    }
)


def state(data: bytes, file: str, diagnostics: Diagnostics) -> Stated | None:
    """Return the queues of a file, the root first; None if it is no such file."""
    properties = read_properties(data, file, diagnostics, is_read=_is_read)
    if properties is None:
        return None
    stated = Stated(f".{SUBMIT}", f".{ADMIN}", checks_submission_always=False, has_short_names=True)
    paths = _paths(properties, diagnostics)
    for path, position in paths.items():
        keys = (f"{PREFIX}{path}.{SUBMIT}", f"{PREFIX}{path}.{ADMIN}")
        submit, admin = (properties.get(key) for key in keys)
        stated.queues.append(StatedQueue(path, position, submit, admin))
    _check_keys(properties, paths, diagnostics)
    if len(paths) == 1 and not diagnostics.error_count:
        # Hadoop does not start without it: what lacks it is another file, or a lost one.
        message = f"{PREFIX}root.queues names no queue: this is no file of the capacity scheduler"
        remedy = "name the queues below root, or give the capacity-scheduler.xml"
        diagnostics.error(
            properties.get(f"{PREFIX}{ROOT}.{QUEUES}", Position(1, 1)), message, remedy
        )
    return stated


def _is_read(name: str) -> bool:
    return name.startswith(PREFIX) and name.rpartition(SEPARATOR)[2] in {QUEUES, SUBMIT, ADMIN}


def _paths(properties: dict[str, Text], diagnostics: Diagnostics) -> dict[str, Position]:
    """Return each queue after its parent, with the position where it is named."""
    found = {ROOT: Position(1, 1)}
    waiting = [ROOT]
    while waiting:
        above = waiting.pop()
        names = properties.get(f"{PREFIX}{above}.{QUEUES}")
        if names is None:
            continue
        position = Position(names.line, names.column)
        if above.count(SEPARATOR) >= _MAX_DEPTH or len(found) > _MAX_QUEUES:
            message = "there are too many queues, or too deep ones"
            diagnostics.error(position, message, "name fewer queues, or put them higher up")
            return found
        children = []
        parts = names.text.split(",")
        for name in filter(None, (part.strip(TRIMMED) for part in parts)):
            path = f"{above}{SEPARATOR}{name}"
            if SEPARATOR in name:
                message = f"{quoted(name)} is no name of a queue"
                diagnostics.error(
                    position, message, "write names without dots between commas", above
                )
            elif path in found:
                message = f"the queue {quoted(name)} is named twice"
                diagnostics.warning(position, message, "name it once", path)
            else:
                found[path] = position
                children.append(path)
        waiting += reversed(children)
    return found


def _check_keys(
    properties: dict[str, Text], paths: dict[str, Position], diagnostics: Diagnostics
) -> None:
    for key, text in properties.items():
        path, _, last = key.removeprefix(PREFIX).rpartition(SEPARATOR)
        if not key.startswith(PREFIX) or not last.lower().startswith("acl_"):
            continue
        if last in {SUBMIT, ADMIN}:
            if path not in paths:
                message = f"there is no queue {quoted(path)}: this ACL is ignored"
                remedy = "write the full path, starting at root, of a queue that is named"
                diagnostics.warning(text, message, remedy)
        elif last not in _NO_ACLS_OF_QUEUES:
            message = f"{quoted(last)} is no property of a queue: it is ignored"
            diagnostics.warning(text, message, f"write {SUBMIT} or {ADMIN}", path)
