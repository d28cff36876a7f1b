"""Checks the names, filters and values of placement rules, and whether their fixed queues exist.
Collects the groups on which placement and limits depend.

The checks follow `checkPlacementRules`, `checkPlacementFilter`, `getLongestStaticPath` and
`checkQueueHierarchyForPlacement` in YuniKorn's `pkg/common/configs/configvalidator.go`. They also
follow `newRule` and `initialise` in `pkg/scheduler/placement`, which build the rules: with a rule
that cannot be built, the scheduler starts without any rule, and refuses to reload.
"""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR, is_group_name, is_queue_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yunikorn.model import (
    IS_NAME,
    Filter,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
)

try:
    from queuegate_server.formats.yunikorn import go_regexp
except ImportError:  # google-re2 has no wheel for this Python version
    go_regexp = None  # type: ignore[assignment]

_RULE_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
_KNOWN_RULES: Final = frozenset({"fixed", "provided", "tag", "user"})
_TEST_RULE: Final = "test"
_TAG: Final = "tag"
_REGEXP_CHARACTER: Final = re.compile(r"[\^$*+?()\[{}|]")
MAX_PATTERN: Final = 10_000
"""The maximum length of a regular expression. RE2 takes a minute for 200 000 opening brackets."""
_FILTER_TYPES: Final = frozenset({"", "allow", "deny"})
_FIXED: Final = "fixed"


def check_placement(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the partition's placement rules."""
    tree = _Tree(partition.queues) if partition.rules and partition.queues else None
    for rule in partition.rules:
        chain = list(rule_chain(rule))
        for link in chain:
            _check_name(link, diagnostics)
            _check_value(link, diagnostics)
            if link.filter:
                _check_filter(link.filter, diagnostics)
        if tree:
            _check_fixed_queue(rule, chain, tree, diagnostics)


def rule_chain(rule: PlacementRule) -> Iterator[PlacementRule]:
    """Yield the rule and its ancestors, nearest first."""
    link: PlacementRule | None = rule
    while link:
        yield link
        link = link.parent


def groups_outside_acls(partition: PartitionConfig) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the groups that limits and filters list, and the filters' regular expressions.

    As in YuniKorn's `newFilter` (`pkg/scheduler/placement/filter.go`), only an entry that is
    alone in its list may be a regular expression.
    """
    limits = [*partition.limits, *(limit for queue in partition.queues for limit in queue.limits)]
    lists = [limit.groups or () for limit in limits]
    patterns = []
    for rule in partition.rules:
        for link in rule_chain(rule):
            entries = (link.filter.groups if link.filter else None) or ()
            if len(entries) == 1 and not is_group_name(entries[0].text):
                patterns.append(entries[0].text)
            else:
                lists.append(entries)
    names = {entry.text for entries in lists for entry in entries if is_group_name(entry.text)}
    return frozenset(names), tuple(dict.fromkeys(patterns))


def _check_name(rule: PlacementRule, diagnostics: Diagnostics) -> None:
    name, position, is_known = rule.name
    known = ", ".join(sorted(_KNOWN_RULES))
    if not is_known:
        return
    if not _RULE_NAME.fullmatch(name):
        message = f"{quoted(name)} is not a valid placement rule name"
        diagnostics.error(position, message, f"write one of {known}")
    elif name.lower() == _TEST_RULE:
        message = f"the placement rule {quoted(name)} is only for YuniKorn's own tests"
        diagnostics.warning(position, message, f"write one of {known}")
    elif name.lower() not in _KNOWN_RULES:
        message = f"YuniKorn has no placement rule {quoted(name)}, so it uses none of these rules"
        diagnostics.error(position, message, f"write one of {known}")


def _check_value(rule: PlacementRule, diagnostics: Diagnostics) -> None:
    """Check the value of a rule that needs one. YuniKorn ignores case in rule names and values."""
    kind = rule.name.text.lower()
    value = rule.value.text.lower() if rule.value else ""
    at = rule.value or rule.position
    if kind == _TAG and not value:
        message = "a tag rule needs the name of a tag"
        diagnostics.error(at, message, "write it as the value, such as value: namespace")
    if kind != _FIXED:
        return
    if not value:
        diagnostics.error(at, "a fixed rule needs a queue", "write its name as the value")
        return
    for name in value.split(SEPARATOR):
        if not is_queue_name(name):
            written = quoted(rule.value.text if rule.value else value)
            message = f"{quoted(name)} in {written} is not a queue name"
            remedy = "use 1 to 64 letters, digits and _ : # / @ - between the dots"
            diagnostics.error(at, message, remedy)
            return
    if value.startswith(ROOT):
        is_full_path = value.split(SEPARATOR)[0] == ROOT
        if not is_full_path:
            message = f"YuniKorn takes {quoted(value)} for a full path, because it begins with root"
            remedy = f"write it with the queue above it, such as {ROOT}{SEPARATOR}{value}"
            diagnostics.error(at, message, remedy)
        elif rule.parent:
            message = f"a rule with a parent cannot have the full path {quoted(value)}"
            diagnostics.error(at, message, "write the name without root, or no parent")


def _check_filter(rule_filter: Filter, diagnostics: Diagnostics) -> None:
    if rule_filter.kind and rule_filter.kind.text.lower() not in _FILTER_TYPES:
        message = f"{quoted(rule_filter.kind.text)} is not a filter type"
        diagnostics.error(rule_filter.kind, message, "write allow or deny; allow is the default")
    for kind, entries in (("user", rule_filter.users), ("group", rule_filter.groups)):
        # YuniKorn checks a pattern only if it is the list's only entry.
        if entries and len(entries) == 1 and not IS_NAME[kind](entries[0].text):
            _check_pattern(kind, entries[0], diagnostics)


def _check_pattern(kind: str, entry: ScalarNode, diagnostics: Diagnostics) -> None:
    """Check a filter entry that is not a name, and hence must be a regular expression."""
    message = f"{quoted(entry.text)} is neither a {kind} name nor a regular expression"
    remedy = "correct it; regular expressions use Go's syntax (RE2)"
    if not _REGEXP_CHARACTER.search(entry.text):
        diagnostics.error(entry, message, remedy)
    elif len(entry.text) > MAX_PATTERN:
        message = f"the regular expression {quoted(entry.text)} is too long to be checked"
        diagnostics.warning(entry, message, f"shorten it to {MAX_PATTERN} characters")
    elif go_regexp is None:
        message = f"the regular expression {quoted(entry.text)} was not checked"
        diagnostics.warning(entry, message, "install google-re2 to have it checked")
    else:
        try:
            go_regexp.compile_pattern(entry.text)
        except go_regexp.BadPattern as error:
            diagnostics.error(entry, f"{message}: {error}", remedy)


class _Tree:
    """Looks up a partition's queues by parent and name."""

    def __init__(self, queues: list[QueueConfig]) -> None:
        self._root = queues[0]
        self._exact = {(queue.parent, queue.name.text): queue for queue in queues}
        self._folded = {(queue.parent, queue.name.text.lower()): queue for queue in queues}

    def obstacle(self, levels: list[str], *, create: bool, dynamic: bool) -> tuple[str, str] | None:
        """Return why YuniKorn refuses to place applications in the queue, and the remedy; None if
        it does not.

        `levels` are in lower case and start with `root`. `dynamic` means that the path has
        additional levels that depend on the application.
        """
        queue = self._root
        for level in levels[1:]:
            if not queue.has_children and not queue.is_parent:
                remedy = "place into that leaf, or set parent: true on it"
                return f"but {quoted(queue.path)} is a leaf", remedy
            below = self._exact.get((queue, level))
            if below is None:
                return None if create else self._missing(queue, level)
            queue = below
        if dynamic and not queue.is_parent:
            return "but rules below it need a parent queue there", "set parent: true on it"
        if not dynamic and queue.is_parent:
            return "which is not a leaf", "place into a leaf"
        return None

    def _missing(self, parent: QueueConfig, level: str) -> tuple[str, str]:
        if other := self._folded.get((parent, level)):
            name = quoted(other.name.text)
            return (
                f"but the queue there is spelled {name}, and YuniKorn compares with lower case",
                f"rename the queue to {level}, which changes no path, or set create: true",
            )
        return "which does not exist and which it may not create", "add it or set create: true"


def _check_fixed_queue(
    rule: PlacementRule, chain: list[PlacementRule], tree: _Tree, diagnostics: Diagnostics
) -> None:
    """Check the static part of a rule's queue path."""
    path = ""
    dynamic = False
    for link in reversed(chain):
        # Unlike elsewhere, case matters here: YuniKorn takes `Fixed` for a rule of another kind.
        if link.name.text != _FIXED:
            dynamic = True
            break
        value = link.value.text if link.value else ""
        if not value or (value.startswith(ROOT) and (path or value.split(SEPARATOR)[0] != ROOT)):
            return  # `_check_value` reports it
        path = value if value.startswith(ROOT) else f"{path or ROOT}{SEPARATOR}{value}"
    levels = path.lower().split(SEPARATOR)
    obstacle = tree.obstacle(levels, create=rule.create, dynamic=dynamic) if path else None
    if obstacle:
        message = f"the rule places into {quoted(path)}, {obstacle[0]}"
        diagnostics.error(rule.value or rule.position, message, obstacle[1])
