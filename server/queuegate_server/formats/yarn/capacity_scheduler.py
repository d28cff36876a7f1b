"""capacity-scheduler.xml -> its queues and their ACLs."""

from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, Position, quoted
from queuegate_server.formats.yarn.model import QueueEntry, SchedulerFile, Text
from queuegate_server.formats.yarn.properties import read_properties

PREFIX: Final = "yarn.scheduler.capacity."
SUBMIT: Final = "acl_submit_applications"
ADMIN: Final = "acl_administer_queue"
QUEUES: Final = "queues"
_MAX_DEPTH: Final = 200
_MAX_QUEUES: Final = 1_000_000
_OTHER_ACLS: Final = frozenset(
    {
        "acl_application_max_priority",
        "acl_administer_reservations",
        "acl_list_reservations",
        "acl_submit_reservations",
    }
)


def read_capacity_scheduler(data: bytes, diagnostics: Diagnostics) -> SchedulerFile | None:
    """Return the queues of a file, the root first; None if it is no such file."""
    properties = read_properties(data, diagnostics, is_read=_is_read)
    if properties is None:
        return None
    found = SchedulerFile(
        f".{SUBMIT}", f".{ADMIN}", checks_submission_always=False, has_short_names=True
    )
    paths = _paths(properties, diagnostics)
    for path, position in paths.items():
        keys = (f"{PREFIX}{path}.{SUBMIT}", f"{PREFIX}{path}.{ADMIN}")
        submit, admin = (properties.get(key) for key in keys)
        found.queues.append(QueueEntry(path, position, submit, admin))
    _check_keys(properties, paths, diagnostics)
    if len(paths) == 1 and not diagnostics.error_count:
        # Hadoop does not start without it, so this is another file, or a damaged one.
        names = properties.get(f"{PREFIX}{ROOT}.{QUEUES}", Position(1, 1))
        message = f"{PREFIX}root.queues lists no queue: this is no capacity-scheduler.xml"
        diagnostics.error(names, message, "list the queues below root, or use the right file")
    return found


def _is_read(name: str) -> bool:
    return name.startswith(PREFIX) and name.rpartition(SEPARATOR)[2] in {QUEUES, SUBMIT, ADMIN}


def _paths(properties: dict[str, Text], diagnostics: Diagnostics) -> dict[str, Position]:
    """Return each queue after its parent, with the position of its name."""
    found = {ROOT: Position(1, 1)}
    stack = [ROOT]
    while stack:
        above = stack.pop()
        names = properties.get(f"{PREFIX}{above}.{QUEUES}")
        if names is None:
            continue
        position = Position(names.line, names.column)
        if above.count(SEPARATOR) >= _MAX_DEPTH:
            message = f"queues are nested more than {_MAX_DEPTH} levels deep"
            diagnostics.error(position, message, "flatten the tree")
            return found
        if len(found) > _MAX_QUEUES:
            message = f"there are more than {_MAX_QUEUES} queues"
            diagnostics.error(position, message, "list fewer queues")
            return found
        children = []
        for name in filter(None, (part.strip(TRIMMED) for part in names.text.split(","))):
            path = f"{above}{SEPARATOR}{name}"
            if SEPARATOR in name:
                message = f"{quoted(name)} is not a queue name: it contains a dot"
                remedy = "list the names of the children, separated by commas"
                diagnostics.error(position, message, remedy, above)
            elif path in found:
                message = f"the queue {quoted(name)} is listed twice"
                diagnostics.warning(position, message, "list it once", path)
            else:
                found[path] = position
                children.append(path)
        stack += reversed(children)
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
                remedy = "write the full path of a listed queue, starting with root"
                diagnostics.warning(text, message, remedy)
        elif last not in _OTHER_ACLS:
            message = f"{quoted(last)} is not a property of a queue: it is ignored"
            diagnostics.warning(text, message, f"write {SUBMIT} or {ADMIN}", path)
