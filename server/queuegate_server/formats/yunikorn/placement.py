"""Checks the names, filters and values of placement rules, and whether their fixed queues exist.

The checks follow `checkPlacementRules`, `checkPlacementFilter`, `getLongestStaticPath` and
`checkQueueHierarchyForPlacement` in YuniKorn's `pkg/common/configs/configvalidator.go`. They also
follow `newRule` and `initialise` in `pkg/scheduler/placement`, which build the rules: if a rule
cannot be built, the scheduler starts without any rules, and refuses to reload.
"""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR, is_queue_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
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
"""The maximum length of a regular expression. RE2 takes a minute for 200,000 opening brackets."""
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


def _check_name(rule: PlacementRule, diagnostics: Diagnostics) -> None:
    name, position, is_known = rule.name
    known = ", ".join(sorted(_KNOWN_RULES))
    if not is_known:
        return
    if not _RULE_NAME.fullmatch(name):
        diagnostics.add(position, finding("invalid-rule-name", name=quoted(name), known=known))
    elif name.lower() == _TEST_RULE:
        diagnostics.add(position, finding("test-rule", name=quoted(name), known=known))
    elif name.lower() not in _KNOWN_RULES:
        diagnostics.add(position, finding("unknown-rule", name=quoted(name), known=known))


def _check_value(rule: PlacementRule, diagnostics: Diagnostics) -> None:
    """Check the value of a rule that needs one. YuniKorn ignores case in rule names and values."""
    kind = rule.name.text.lower()
    value = rule.value.text.lower() if rule.value else ""
    at = rule.value or rule.position
    if kind == _TAG and not value:
        diagnostics.add(at, finding("tag-rule-without-tag"))
    if kind != _FIXED:
        return
    if not value:
        diagnostics.add(at, finding("fixed-rule-without-queue"))
        return
    for name in value.split(SEPARATOR):
        if not is_queue_name(name):
            written = quoted(rule.value.text if rule.value else value)
            found = finding("invalid-queue-in-rule", name=quoted(name), path=written)
            diagnostics.add(at, found)
            return
    if value.startswith(ROOT):
        is_full_path = value.split(SEPARATOR)[0] == ROOT
        if not is_full_path:
            full = f"{ROOT}{SEPARATOR}{value}"
            diagnostics.add(at, finding("path-begins-with-root", path=quoted(value), full=full))
        elif rule.parent:
            diagnostics.add(at, finding("full-path-below-parent", path=quoted(value)))


def _check_filter(rule_filter: Filter, diagnostics: Diagnostics) -> None:
    if rule_filter.kind and rule_filter.kind.text.lower() not in _FILTER_TYPES:
        found = finding("unknown-filter-type", type=quoted(rule_filter.kind.text))
        diagnostics.add(rule_filter.kind, found)
    for kind, entries in (("user", rule_filter.users), ("group", rule_filter.groups)):
        # YuniKorn checks a pattern only if it is the list's only entry.
        if entries and len(entries) == 1 and not IS_NAME[kind](entries[0].text):
            _check_pattern(kind, entries[0], diagnostics)


def _check_pattern(kind: str, entry: ScalarNode, diagnostics: Diagnostics) -> None:
    """Check a filter entry that is not a name, and hence must be a regular expression."""
    text = quoted(entry.text)
    if not _REGEXP_CHARACTER.search(entry.text):
        diagnostics.add(entry, finding("invalid-filter-entry", text=text, kind=kind, why=""))
    elif len(entry.text) > MAX_PATTERN:
        diagnostics.add(entry, finding("long-pattern", text=text, most=MAX_PATTERN))
    elif go_regexp is None:
        diagnostics.add(entry, finding("unchecked-pattern", text=text))
    else:
        try:
            go_regexp.compile_pattern(entry.text)
        except go_regexp.BadPattern as error:
            why = f": {error}"
            diagnostics.add(entry, finding("invalid-filter-entry", text=text, kind=kind, why=why))


class _Tree:
    """Looks up a partition's queues by parent and name."""

    def __init__(self, queues: list[QueueConfig]) -> None:
        self._root = queues[0]
        self._exact = {(queue.parent, queue.name.text): queue for queue in queues}
        self._folded = {(queue.parent, queue.name.text.lower()): queue for queue in queues}

    def obstacle(self, path: str, *, create: bool, dynamic: bool) -> Finding | None:
        """Return why YuniKorn refuses to place applications in the queue; None if it does not.

        `dynamic` means that the path has additional levels that depend on the application.
        """
        queue, shown = self._root, quoted(path)
        for level in path.lower().split(SEPARATOR)[1:]:
            if not queue.has_children and not queue.is_parent:
                return finding("placement-below-leaf", path=shown, queue=quoted(queue.path))
            below = self._exact.get((queue, level))
            if below is None:
                return None if create else self._missing(shown, queue, level)
            queue = below
        if dynamic and not queue.is_parent:
            return finding("placement-needs-parent", path=shown)
        if not dynamic and queue.is_parent:
            return finding("placement-in-parent", path=shown)
        return None

    def _missing(self, path: str, parent: QueueConfig, level: str) -> Finding:
        if other := self._folded.get((parent, level)):
            name = quoted(other.name.text)
            return finding("placement-in-other-spelling", path=path, name=name, level=level)
        return finding("placement-in-missing-queue", path=path)


def _check_fixed_queue(
    rule: PlacementRule, chain: list[PlacementRule], tree: _Tree, diagnostics: Diagnostics
) -> None:
    """Check the static part of a rule's queue path."""
    path = ""
    dynamic = False
    for link in reversed(chain):
        # Unlike elsewhere, case matters here: YuniKorn treats `Fixed` as a rule of another kind.
        if link.name.text != _FIXED:
            dynamic = True
            break
        value = link.value.text if link.value else ""
        if not value or (value.startswith(ROOT) and (path or value.split(SEPARATOR)[0] != ROOT)):
            return  # `_check_value` reports it
        path = value if value.startswith(ROOT) else f"{path or ROOT}{SEPARATOR}{value}"
    if path and (obstacle := tree.obstacle(path, create=rule.create, dynamic=dynamic)):
        diagnostics.add(rule.value or rule.position, obstacle)
