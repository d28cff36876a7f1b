"""Lint rules that look at a queue together with those above it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from queuegate.policy.names import RECOVERY_QUEUE
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yunikorn.lint_subject import ListedAcl, Subject

if TYPE_CHECKING:
    from queuegate_server.formats.yunikorn.model import Queue


class _Above(NamedTuple):
    """The nearest queues that grant something, by path; empty where none does."""

    everybody_submits: str = ""
    everybody_administers: str = ""
    somebody_submits: str = ""
    somebody_administers: str = ""


_NONE: Final = _Above()


def pointless(subject: Subject, diagnostics: Diagnostics) -> None:
    """A list of names below a queue that lets everybody in already."""
    for listed, above in _with_above(subject):
        who = above.everybody_submits if listed.key == "submitacl" else above.everybody_administers
        if who and not listed.acl.is_empty and not listed.acl.allows_all:
            does = "submit" if listed.key == "submitacl" else "administer"
            message = f"this ACL changes nothing: queue {quoted(who)} lets everybody {does}"
            remedy = "remove one of the two; a queue cannot take away what one above it grants"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def not_closed(subject: Subject, diagnostics: Diagnostics) -> None:
    """A single blank, meant to close a queue, below a queue that grants somebody."""
    for listed, above in _with_above(subject):
        who = above.somebody_submits if listed.key == "submitacl" else above.somebody_administers
        if who and listed.scalar.text == " ":
            message = f"this ACL does not close the queue: what {quoted(who)} grants holds here too"
            remedy = "remove it; grant less above and more in the queues below"
            diagnostics.warning(listed.scalar, message, remedy, listed.queue.path)


def recovery_queue(subject: Subject, diagnostics: Diagnostics) -> None:
    """A queue with the name of YuniKorn's own recovery queue."""
    for partition in subject.partitions:
        for queue in partition.queues:
            if queue.path == RECOVERY_QUEUE:
                message = f"{RECOVERY_QUEUE} is YuniKorn's own: nobody can submit to it"
                diagnostics.warning(queue.name_position, message, "rename the queue", queue.path)


def _with_above(subject: Subject) -> Iterator[tuple[ListedAcl, _Above]]:
    """Give each ACL with what the queues above it grant."""
    by_queue: dict[Queue, list[ListedAcl]] = {}
    for listed in subject.acls:
        by_queue.setdefault(listed.queue, []).append(listed)
    granted: dict[Queue, _Above] = {}
    for partition in subject.partitions:
        for queue in partition.queues:
            above = granted.get(queue.above, _NONE) if queue.above else _NONE
            own = by_queue.get(queue, [])
            for listed in own:
                yield listed, above
            granted[queue] = _add(above, queue.path, own)


def _add(above: _Above, path: str, own: list[ListedAcl]) -> _Above:
    for listed in own:
        if listed.acl.is_empty:
            continue
        above = above._replace(somebody_submits=path)
        if listed.acl.allows_all:
            above = above._replace(everybody_submits=path)
        if listed.key == "adminacl":
            above = above._replace(somebody_administers=path)
            if listed.acl.allows_all:
                above = above._replace(everybody_administers=path)
    return above
