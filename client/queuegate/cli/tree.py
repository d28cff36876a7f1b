"""The command `queuegate tree`, which draws a partition's queues and who may use them."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

import click

from queuegate._results import PolicyInfo, PolicyQueue, QueueTemplate
from queuegate.cli.documents import plain
from queuegate.cli.options import (
    LIST_TIMEOUT,
    Command,
    files_options,
    groups_options,
    policy_partition_option,
    prefix_option,
    session_options,
)
from queuegate.cli.output import Report
from queuegate.cli.session import Session
from queuegate.cli.terminal import Colors, escape
from queuegate.policy import acl as yunikorn_acl
from queuegate.policy.acl import Acl, AclError, AclNames
from queuegate.policy.chain import CLUSTER, Chain, ChainEnd, ChainIndexes
from queuegate.policy.created_queues import (
    ANY_NAME,
    DEFAULT_DEPTH,
    Creator,
    QueueCreation,
    Template,
    TemplateKind,
)
from queuegate.policy.decision import NO_MATCH, Access, Decision, Reason
from queuegate.policy.names import DEFAULT_PARTITION, SEPARATOR, parent_path
from queuegate.policy.yarn_acl import Semantics, yarn_grammar

_MAX_SHOWN: Final = 200
"""The maximum number of queues shown by default. Levels that would exceed it are omitted."""
_MAX_CHILDREN: Final = 50
"""The maximum number of a queue's children shown by default."""
_MIN_WIDTH: Final = 40
_YARN_FORMATS: Final = frozenset({"fair-scheduler", "capacity-scheduler"})
_SEMANTICS: Final = frozenset(map(str, Semantics))
_INHERITED: Final = Decision(True, Reason.USER, CLUSTER, "")


@click.command("tree", cls=Command)
@session_options
@prefix_option
@policy_partition_option
@click.option("--user", metavar="USER", help="Mark the queues that this user may use.")
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="The number of levels to show below the first queue.",
)
@click.option("--all", "everything", is_flag=True, help="Show all queues, however many.")
@groups_options
@files_options
def tree(
    session: Session,
    *,
    prefix: str,
    partition: str,
    user: str | None,
    depth: int | None,
    everything: bool,
    groups: tuple[str, ...] | None,
    real_user: str,
) -> Report:
    """Show the queues as a tree, with the users and groups listed in their ACLs.

    Below a queue where YARN creates queues, * represents queues with ACLs from a template. --user
    does not mark these queues if access depends on groups that are not given with --group.

    A tree of more than 200 queues is truncated where marked; --depth, --prefix and --all show more.
    """
    if user is None and (groups is not None or real_user):
        message = "--group, --no-groups and --real-user: only with --user"
        raise click.UsageError(message, click.get_current_context())
    timeout = session.timeout or LIST_TIMEOUT
    usable: dict[Access, frozenset[str]] = {}
    with session.client() as client:
        answer = client.get_policy(partition, prefix, timeout=timeout)
        queues, partition = answer.queues, shown_partition(partition, answer)
        if user is not None:
            for access in Access:
                usable_queues = client.list_queues(
                    user,
                    partition=partition,
                    access=access,
                    prefix=prefix,
                    groups=groups,
                    real_user=real_user,
                    timeout=timeout,
                )
                usable[access] = frozenset(usable_queues)
    parse = _parser(answer)
    created: dict[str, list[Access]] = {}
    if user is not None:
        created = _created(answer, usable, parse, user=user, groups=groups, real_user=real_user)
    drawing = Drawing(
        queues,
        usable,
        session.colors,
        _width(),
        templates=answer.templates,
        created=created,
        parse=parse,
    )
    if everything:
        lines = drawing.lines(None, None)
    else:
        level = drawing.fitting_depth() if depth is None else depth
        lines = drawing.lines(level, _MAX_CHILDREN if depth is None else None)
    document: dict[str, object] = {
        "partition": partition,
        "queues": [_to_document(queue, usable) for queue in queues],
    }
    if answer.templates:
        document["templates"] = [plain(template) for template in answer.templates]
    note = "" if queues else f"there is no queue {prefix}"
    return Report(document, lines, note=note)


def shown_partition(partition: str, answer: PolicyInfo) -> str:
    """Return the name of the partition described by a response, given the requested name."""
    only = answer.partitions[0] if len(answer.partitions) == 1 else DEFAULT_PARTITION
    return partition or only


def _created(
    answer: PolicyInfo,
    usable: Mapping[Access, Collection[str]],
    parse: Callable[[str], Acl],
    *,
    user: str,
    groups: Sequence[str] | None,
    real_user: str,
) -> dict[str, list[Access]]:
    """Return a user's access to leaf queues yet to be created, by parent path.

    Combines the user's access to existing queues (`usable`) with the ACLs in the templates. Omits
    paths if access depends on unknown groups, or on settings missing from the response.
    """
    kinds = {*TemplateKind}
    is_known = answer.semantics in _SEMANTICS and all(t.kind in kinds for t in answer.templates)
    if not is_known:
        return {}
    levels = {queue.path: queue.created_levels for queue in answer.queues}
    managed = {each.path for each in answer.templates if each.kind == TemplateKind.LEAF_OF_MANAGED}
    creation = QueueCreation(
        {path: Creator(levels[path], path in managed) for path in levels if levels[path]},
        tuple(
            Template(TemplateKind(each.kind), each.path, each.submit_acl, each.admin_acl)
            for each in answer.templates
        ),
        levels,
    )
    has_default_depth = all(
        creator.is_managed or creator.levels == DEFAULT_DEPTH
        for creator in creation.creators.values()
    )
    allowed: dict[str, list[Access]] = {}
    for path in {each.path for each in answer.templates if each.kind != TemplateKind.PARENT}:
        nearest = path
        while nearest and nearest not in levels:
            nearest = parent_path(nearest)
        created = creation.created(f"{path}{SEPARATOR}{ANY_NAME}", nearest)
        if not created or (nearest != path and not has_default_depth):
            continue
        decisions = {}
        for access in Access:
            inherited = _INHERITED if nearest in usable[access] else NO_MATCH
            chain: Chain = ChainEnd(inherited, ChainIndexes())
            for each in reversed(created):
                texts = [each.admin_acl]
                if access is Access.SUBMIT:
                    texts.append(each.submit_acl)
                chain = chain.extend(each.path, [*map(parse, texts)])
            decisions[access] = chain.decide(user, groups, real_user)
        if None not in decisions.values():
            allowed[path] = [access for access, each in decisions.items() if each and each.allowed]
    return allowed


def _parser(answer: PolicyInfo) -> Callable[[str], Acl]:
    """Return the parser that the server uses for the ACLs in a response."""
    if answer.semantics in _SEMANTICS:
        return cache(yarn_grammar(Semantics(answer.semantics)))
    if answer.format in _YARN_FORMATS:
        return cache(yarn_grammar(Semantics.DOCUMENTED))
    return cache(_parse_yunikorn)


def _parse_yunikorn(text: str) -> Acl:
    """Parse an ACL. An ACL rejected by YuniKorn is represented by an empty ACL with its text as a
    dropped name.
    """
    try:
        return yunikorn_acl.parse(text, AclNames.ANY)
    except AclError:
        return Acl(text, dropped_users=(text,))


def _width() -> int | None:
    """Return the width of the terminal in columns; None if lines are not truncated."""
    if not sys.stdout.isatty():
        return None
    return max(_MIN_WIDTH, shutil.get_terminal_size().columns)


def _to_document(queue: PolicyQueue, usable: dict[Access, frozenset[str]]) -> dict[str, object]:
    described: dict[str, object] = {
        "queue": queue.path,
        "submit_acl": queue.submit_acl,
        "admin_acl": queue.admin_acl,
    }
    if queue.created_levels:
        described["created_levels"] = queue.created_levels
    if usable:
        described["allowed"] = [access for access in Access if queue.path in usable[access]]
    return described


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
            usable: The queues that the user may use, by access; empty without a user.
            colors: The colors of the text.
            width: The maximum number of columns, or None for no limit.
            templates: The templates of queues yet to be created.
            created: The user's access to these queues, by template path.
            parse: Parses an ACL's text.
        """
        self._queues = queues
        self._usable = usable
        self._colors = colors
        self._width = width
        self._parse = parse
        self._created = created
        self._children: dict[str, list[PolicyQueue]] = {}
        self._opened_by: dict[str, str] = {}
        """For each queue that everyone may use, the nearest queue whose ACL allows everyone."""
        for queue in queues:
            above = parent_path(queue.path)
            self._children.setdefault(above, []).append(queue)
            is_open = any(parse(acl).allows_all for acl in (queue.submit_acl, queue.admin_acl))
            if opened_by := queue.path if is_open else self._opened_by.get(above, ""):
                self._opened_by[queue.path] = opened_by
        self._templates: dict[str, list[QueueTemplate]] = {}
        """The templates, by the nearest queue at or above their path."""
        paths = {queue.path for queue in queues}
        for template in templates:
            path = template.path
            while path and path not in paths:
                path = parent_path(path)
            self._templates.setdefault(path, []).append(template)

    def fitting_depth(self) -> int:
        """Return the default number of levels below the first queue."""
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
            depth: The number of levels below the first queue, or None for all.
            most: The maximum number of children shown per queue, or None for all.
        """
        if not self._queues:
            return
        first = self._queues[0]
        yield self._line("", first.path, first)
        waiting: list[_Branch | str] = [*self._below(first.path, "", depth, most)]
        while waiting:
            branch = waiting.pop()
            if isinstance(branch, str):
                yield branch
                continue
            queue, indent, is_last, left = branch
            name = queue.path.rpartition(SEPARATOR)[2]
            yield self._line(f"{indent}{'└─ ' if is_last else '├─ '}", name, queue)
            waiting += self._below(queue.path, indent + ("   " if is_last else "│  "), left, most)

    def _below(
        self, path: str, indent: str, depth: int | None, most: int | None
    ) -> list["_Branch | str"]:
        """Return the items to draw below a queue, in reverse order."""
        children = self._children.get(path, [])
        shown = children[:most] if depth is None or depth > 0 else []
        hidden = len(children) - len(shown)
        left = None if depth is None else depth - 1
        templates = self._templates.get(path, [])[:most] if depth is None or depth > 0 else []
        last = len(children) + len(templates)
        below: list[_Branch | str] = [
            _Branch(queue, indent, position == last, left)
            for position, queue in enumerate(shown, 1)
        ]
        below += [
            self._template(f"{indent}{'└─' if position == last else '├─'} ", path, template)
            for position, template in enumerate(templates, len(children) + 1)
        ]
        if hidden:
            more = "more " if shown else ""
            text = f"{indent}└─ … {hidden} {more}queue{'' if hidden == 1 else 's'}"
            below.append(self._colors.faint(f"{text} (--prefix {escape(path)})"))
        return below[::-1]

    def _template(self, indent: str, path: str, template: QueueTemplate) -> str:
        """Return the line for the queues created from a template below a queue."""
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
            may = [access for access in Access if queue.path in self._usable[access]]
            parts.append(_may(may))
        opened_by = self._opened_by.get(queue.path)
        if opened_by == queue.path:
            parts.append("everyone")
        elif opened_by:
            parts.append(f"everyone, by {escape(opened_by)}")
        for acl, dropped, label in (
            (queue.submit_acl, queue.submit_acl_dropped_names, ""),
            (queue.admin_acl, queue.admin_acl_dropped_names, "admin "),
        ):
            parsed = self._parse(acl)
            if not parsed.allows_all:
                parts += (f"{label}{each}" for each in _describe_names(parsed, dropped))
        if (levels := queue.created_levels) > 0:
            parts.append("YARN creates queues" + (f", up to {levels} levels" if levels > 1 else ""))
        return "; ".join(parts)


class _Branch(NamedTuple):
    """A queue to draw."""

    queue: PolicyQueue
    indent: str
    is_last: bool
    depth: int | None
    """The number of levels to draw below the queue, or None for all."""


def _may(allowed: Sequence[Access]) -> str:
    return " and ".join(allowed) or "denied"


def _describe_names(acl: Acl, dropped: Collection[str]) -> Iterator[str]:
    """Yield descriptions of the names in an ACL, in the same order as in its text."""
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
