"""Draw a partition's queues as a text tree."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from queuegate._results import PolicyQueue, QueueTemplate
from queuegate._types import AclEntry
from queuegate.cli.terminal import Colors, escape
from queuegate.policy import acl as yunikorn_acl
from queuegate.policy.acl import Acl
from queuegate.policy.created_queues import TemplateKind
from queuegate.policy.decision import Access
from queuegate.policy.names import SEPARATOR, parent_path
from queuegate.policy.queue import granting
from queuegate.policy.reach import SubjectKind

_MAX_SHOWN: Final = 200
"""The maximum number of queues shown by default. Levels that would exceed it are hidden."""


class Drawing:
    """A drawing of a queue tree."""

    def __init__(
        self,
        queues: Sequence[PolicyQueue],
        usable: Mapping[Access, Collection[str]],
        colors: Colors,
        width: int | None,
        *,
        templates: Sequence[QueueTemplate] = (),
        created: Mapping[str, Sequence[Access]] = MappingProxyType({}),
        parse: Callable[[str], Acl] = yunikorn_acl.parse,
    ) -> None:
        """Create a drawing of queues.

        Args:
            queues: The queues, parents first.
            usable: The queues that the user may use, by kind of access; empty if no user is given.
            colors: The colors of the text.
            width: The maximum number of columns, or None for no limit.
            templates: The templates of queues yet to be created.
            created: The user's access to queues yet to be created, by template path.
            parse: Parses an ACL's text.
        """
        self._queues = queues
        self._usable = usable
        self._colors = colors
        self._width = width
        self._parse = parse
        self._created = created
        self._children = _children(queues)
        self._opened_by = _opened_by(queues, parse)
        self._templates = _by_queue(templates, queues)

    def fitting_depth(self) -> int:
        """Return the default number of levels to show below the topmost queue."""
        counts = Counter(queue.path.count(SEPARATOR) for queue in self._queues)
        shown = 0
        for depth, level in enumerate(sorted(counts)):
            shown += counts[level]
            if shown > _MAX_SHOWN:
                return max(1, depth - 1)
        return len(counts)

    def lines(self, depth: int | None, most: int | None) -> Iterator[str]:
        """Yield the lines of the tree.

        Args:
            depth: The number of levels below the topmost queue, or None for all.
            most: The maximum number of children shown per queue, or None for all.
        """
        if not self._queues:
            return
        first = self._queues[0]
        waiting = [_Item(self._line("", first.path, first), first.path, "", depth)]
        while waiting:
            item = waiting.pop()
            yield item.line
            if item.path:
                waiting += [*self._below(item, most)][::-1]

    def _below(self, item: "_Item", most: int | None) -> Iterator["_Item"]:
        """Yield the items to draw below a queue, at most `most` of each kind."""
        indent, depth = item.indent, item.depth
        is_shown = depth is None or depth > 0
        left = None if depth is None else depth - 1
        children = self._children.get(item.path, [])
        shown = children[:most] if is_shown else []
        hidden = len(children) - len(shown)
        templates = self._templates.get(item.path, [])[:most] if is_shown else []
        last = len(children) + len(templates)
        for position, queue in enumerate(shown, 1):
            name = queue.path.rpartition(SEPARATOR)[2]
            is_last = position == last
            line = self._line(f"{indent}{'└─ ' if is_last else '├─ '}", name, queue)
            yield _Item(line, queue.path, indent + ("   " if is_last else "│  "), left)
        for position, template in enumerate(templates, len(children) + 1):
            branch = f"{indent}{'└─' if position == last else '├─'} "
            yield _Item(self._template(branch, item.path, template))
        if hidden:
            more = "more " if shown else ""
            text = f"{indent}└─ … {hidden} {more}queue{'' if hidden == 1 else 's'}"
            yield _Item(self._colors.faint(f"{text} (--prefix {escape(item.path)})"))

    def _template(self, indent: str, path: str, template: QueueTemplate) -> str:
        """Return the line that represents the queues that `template` creates below `path`."""
        name = f"{template.path[len(path) + 1 :]}{SEPARATOR}*".removeprefix(SEPARATOR)
        kind = template.kind.rpartition(SEPARATOR)[2]
        acls = [(template.submit_acl, ""), (template.admin_acl, "admin ")]
        parts = [
            f"{label}{each}"
            for acl, label in acls
            if acl is not None
            for each in _describe_names(self._parse(acl), ())
        ]
        text = f"{escape(kind)}: {'; '.join(parts) or 'nobody'}"
        if template.kind != TemplateKind.PARENT and template.path in self._created:
            text = f"{_may(self._created[template.path])}; {text}"
        text = f"{escape(name)}  {text}"
        if self._width is not None:
            text = _truncate(text, self._width - len(indent))
        return f"{indent}{self._colors.faint(text)}"

    def _line(self, indent: str, name: str, queue: PolicyQueue) -> str:
        shown = escape(name)
        text = self._who(queue)
        if self._width is not None:
            text = _truncate(text, self._width - len(indent) - len(shown) - 2)
        if not self._usable:
            is_open = queue.path in self._opened_by
            return f"{indent}{shown}  {self._colors.good(text) if is_open else text}".rstrip()
        allowed = [access for access in Access if queue.path in self._usable[access]]
        mark = self._colors.good if allowed else self._colors.faint
        return f"{indent}{mark(shown)}  {self._colors.faint(text)}".rstrip()

    def _who(self, queue: PolicyQueue) -> str:
        """Return a description of the users and groups with access."""
        parts: list[str] = []
        if self._usable:
            parts.append(_may([each for each in Access if queue.path in self._usable[each]]))
        if opened_by := self._opened_by.get(queue.path):
            by = "" if opened_by == queue.path else f", by {escape(opened_by)}"
            parts.append(f"everyone{by}")
        parts += self._listed(queue)
        if (levels := queue.created_levels) > 0:
            parts.append("YARN creates queues" + (f", up to {levels} levels" if levels > 1 else ""))
        return "; ".join(parts)

    def _listed(self, queue: PolicyQueue) -> Iterator[str]:
        """Yield a description of each kind of name in the queue's ACLs."""
        for acl, dropped, label in (
            (queue.submit_acl, queue.submit_acl_dropped_names, ""),
            (queue.admin_acl, queue.admin_acl_dropped_names, "admin "),
        ):
            parsed = self._parse(acl)
            if not parsed.allows_all:
                yield from (f"{label}{each}" for each in _describe_names(parsed, dropped))
        yield from _describe_names(_of_entries(queue.submit_acl_entries), ())


class _Item(NamedTuple):
    """A line to draw, and the queue whose children follow it."""

    line: str
    path: str = ""
    """The queue's path; empty if nothing follows."""
    indent: str = ""
    """The indentation of the children."""
    depth: int | None = None
    """The number of levels to draw below the queue, or None for all."""


def _children(queues: Sequence[PolicyQueue]) -> Mapping[str, list[PolicyQueue]]:
    """Return the children of each queue, by its path."""
    children: dict[str, list[PolicyQueue]] = {}
    for queue in queues:
        children.setdefault(parent_path(queue.path), []).append(queue)
    return children


def _opened_by(queues: Sequence[PolicyQueue], parse: Callable[[str], Acl]) -> Mapping[str, str]:
    """Map each queue that everyone may use to the nearest queue, at or above it, whose ACL allows
    everyone. The queues are listed parents first.
    """
    opened_by: dict[str, str] = {}
    for queue in queues:
        texts = granting(Access.SUBMIT, queue.submit_acl, queue.admin_acl)
        is_open = any(parse(text).allows_all for text in texts)
        if opened := queue.path if is_open else opened_by.get(parent_path(queue.path), ""):
            opened_by[queue.path] = opened
    return opened_by


def _by_queue(
    templates: Sequence[QueueTemplate], queues: Sequence[PolicyQueue]
) -> Mapping[str, list[QueueTemplate]]:
    """Return the templates by the path of the nearest queue at or above their own path."""
    paths = {queue.path for queue in queues}
    by_queue: dict[str, list[QueueTemplate]] = {}
    for template in templates:
        path = template.path
        while path and path not in paths:
            path = parent_path(path)
        by_queue.setdefault(path, []).append(template)
    return by_queue


def _may(allowed: Sequence[Access]) -> str:
    return " and ".join(allowed) or "denied"


def _of_entries(entries: Sequence[AclEntry]) -> Acl:
    users, groups = (
        frozenset(each.name for each in entries if each.kind is kind)
        for kind in (SubjectKind.USER, SubjectKind.GROUP)
    )
    return Acl(users=users, groups=groups)


def _describe_names(acl: Acl, dropped: Collection[str]) -> Iterator[str]:
    """Yield a description of each kind of name in an ACL. Names of the same kind keep the ACL's
    order.
    """
    if acl.allows_all:
        yield "everyone"
        return
    if acl.dropped_users == (acl.text,) and not dropped:
        yield f"ACL '{escape(acl.text)}'"
    for kind, listed in (("user", acl.users), ("service", acl.proxies), ("group", acl.groups)):
        names = sorted(listed.difference(dropped), key=lambda name: (acl.text.find(name), name))
        if names:
            plural = "" if len(names) == 1 else "s"
            yield f"{kind}{plural} {', '.join(map(escape, names))}"


def _truncate(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
