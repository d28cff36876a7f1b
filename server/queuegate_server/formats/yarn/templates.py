"""Reads queue creation settings and ACL templates from capacity-scheduler.xml.

ACLs in `auto-queue-creation-v2` templates are taken literally because Hadoop does not expand
variables there.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.created_queues import (
    ANY_NAME,
    DEFAULT_DEPTH,
    MAX_CREATED_LEVELS,
    Creator,
    QueueCreation,
    Template,
    TemplateKind,
    trailing_wildcards,
)
from queuegate.policy.decision import Access
from queuegate.policy.names import ROOT, SEPARATOR, parent_path, similar_name
from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.yarn.properties import boolean
from queuegate_server.formats.yarn.unlisted_queues import LIST, UnlistedQueues
from queuegate_server.formats.yarn.variables import VARIABLE, LocatedText

PREFIX: Final = "yarn.scheduler.capacity."
SUBMIT: Final = "acl_submit_applications"
ADMIN: Final = "acl_administer_queue"

_MANAGED: Final = "auto-create-child-queue"
_FLEXIBLE: Final = "auto-queue-creation-v2"
_ENABLED: Final = "enabled"
_DEPTH: Final = "maximum-queue-depth"
_MAX_QUEUES: Final = "max-queues"
_OTHER_NAMES: Final = frozenset({"management-policy", "fail-on-exceeding-parent-capacity"})
_READ_NAMES: Final = frozenset({_ENABLED, _DEPTH, _MAX_QUEUES})
_TEMPLATE_KEY: Final = re.compile(
    rf"(.+)\.({'|'.join(map(re.escape, TemplateKind))})\.({SUBMIT}|{ADMIN})", re.DOTALL
)
_SWITCHES: Final = {TemplateKind.LEAF_OF_MANAGED: _MANAGED, TemplateKind.ANY: _FLEXIBLE}
_MAX_LEVELS: Final = 200
_INTEGER: Final = re.compile(r"[+-]?[0-9]+|-?0[xX][0-9a-fA-F]+")
_MAX_DIGITS: Final = 12
_MAX_INTEGER: Final = 2**31


@dataclass(slots=True, eq=False)
class TemplateEntry:
    """A template as configured in a file. Unset ACLs are None."""

    kind: TemplateKind
    path: str
    position: Positioned
    """The position of the template's first ACL."""
    submit: LocatedText | None = None
    admin: LocatedText | None = None


@dataclass(slots=True, eq=False)
class Templates:
    """The templates and queue creation settings in a file."""

    entries: Sequence[TemplateEntry] = ()
    """All templates, including unused ones."""
    creation: QueueCreation | None = None
    """The queues that YARN creates, and their templates; None if it creates none."""
    switches: Mapping[tuple[str, TemplateKind], LocatedText] = field(default_factory=dict)
    """The properties that enable queue creation, by path and kind (`LEAF_OF_MANAGED` or `ANY`)."""

    def makes_parent(self, path: str) -> bool:
        """Return whether queue creation makes the queue at `path` a parent."""
        return any(
            boolean(switch)
            for kind in _SWITCHES
            if (switch := self.switches.get((path, kind))) is not None
        )


def is_read(name: str) -> bool:
    """Return whether the named property configures queue creation."""
    rest, _, last = name.rpartition(SEPARATOR)
    return last in _READ_NAMES and rest.rpartition(SEPARATOR)[2] in {_MANAGED, _FLEXIBLE}


def is_literal(name: str) -> bool:
    """Return whether Hadoop reads the named property without expanding its variables."""
    match = _TEMPLATE_KEY.fullmatch(name)
    return match is not None and match[2] != TemplateKind.LEAF_OF_MANAGED


def is_template_acl(name: str) -> bool:
    """Return whether the named property is a template's ACL."""
    return _TEMPLATE_KEY.fullmatch(name) is not None


def template_property(path: str, kind: TemplateKind, access: Access) -> str:
    """Return the name of the property that sets a template's ACL."""
    return f"{PREFIX}{path}.{kind}.{SUBMIT if access is Access.SUBMIT else ADMIN}"


@dataclass(frozen=True, slots=True)
class TemplateReader:
    """Reads the templates in a file's properties."""

    _properties: Mapping[str, LocatedText]
    _children: Mapping[str, int]
    """The number of configured children of each configured queue, by path."""
    _unlisted: UnlistedQueues
    _diagnostics: Diagnostics

    def read(self) -> Templates:
        """Read the templates, and report errors."""
        entries = self._entries()
        default = self._integer(f"{PREFIX}{_FLEXIBLE}.{_DEPTH}", DEFAULT_DEPTH)
        depths = self._depths(default)
        creators = {
            path: creator
            for path in self._children
            if (creator := self._creator(path, depths.get(path, default)))
        }
        self._check_names()
        used = self._used(entries, creators, max((default, *depths.values())))
        switches = self._switches()
        if not creators:
            return Templates(entries, None, switches)
        templates = tuple(
            Template(
                each.kind,
                each.path,
                each.submit and each.submit.text,
                each.admin and each.admin.text,
            )
            for each in used
        )
        # Omit depths set for wildcard paths, because they do not affect which queues are created.
        kept = {path: depth for path, depth in depths.items() if ANY_NAME not in path}
        return Templates(entries, QueueCreation(creators, templates, kept, default), switches)

    def _depths(self, default: int) -> dict[str, int]:
        """Return how many levels may be created below each queue that sets a depth, by path."""
        suffix = f".{_FLEXIBLE}.{_DEPTH}"
        depths: dict[str, int] = {}
        for key in self._properties:
            path = key.removeprefix(PREFIX).removesuffix(suffix)
            if key == f"{PREFIX}{path}{suffix}" and path:
                depths[path] = self._integer(key, default)
        return depths

    def _switches(self) -> dict[tuple[str, TemplateKind], LocatedText]:
        """Return the properties that let YARN create queues, by path and kind."""
        switches: dict[tuple[str, TemplateKind], LocatedText] = {}
        for path in self._children:
            for kind, name in _SWITCHES.items():
                text = self._properties.get(f"{PREFIX}{path}.{name}.{_ENABLED}")
                if text is not None:
                    switches[path, kind] = text
        return switches

    def _entries(self) -> list[TemplateEntry]:
        """Return the templates defined by properties, except templates too deep for any queue."""
        entries: dict[tuple[str, str], TemplateEntry] = {}
        for key, text in self._properties.items():
            match = _TEMPLATE_KEY.fullmatch(key.removeprefix(PREFIX))
            if match is None or not key.startswith(PREFIX):
                continue
            path, kind, name = match[1], TemplateKind(match[2]), match[3]
            if path.count(SEPARATOR) >= _MAX_LEVELS:
                self._diagnostics.add(text, finding("deep-tree", most=_MAX_LEVELS))
                continue
            entry = entries.setdefault((path, kind), TemplateEntry(kind, path, text))
            if name == SUBMIT:
                entry.submit = text
            else:
                entry.admin = text
            if kind is not TemplateKind.LEAF_OF_MANAGED and "${" in text.text:
                self._diagnostics.add(text, finding("variable-in-template", kind=kind), path)
        return [*entries.values()]

    def _creator(self, path: str, depth: int) -> Creator | None:
        """Return how YARN creates queues below a path; None if it creates none, or the maximum
        number of child queues has been reached.
        """
        is_managed = self._boolean(f"{PREFIX}{path}.{_MANAGED}.{_ENABLED}", path)
        is_flexible = self._boolean(f"{PREFIX}{path}.{_FLEXIBLE}.{_ENABLED}", path)
        if not (is_managed or is_flexible):
            return None
        prefix = _MANAGED if is_managed else _FLEXIBLE
        key = f"{PREFIX}{path}.{prefix}.{_MAX_QUEUES}"
        has_room = self._integer(key, _MAX_INTEGER) > self._children[path]
        levels = 1 if is_managed else min(depth, MAX_CREATED_LEVELS)
        if depth > levels and not is_managed:
            text = self._properties.get(f"{PREFIX}{path}.{_FLEXIBLE}.{_DEPTH}")
            most = MAX_CREATED_LEVELS
            found = finding("levels-not-decided", most=most, queue=quoted(path), property=_DEPTH)
            self._diagnostics.add(text, found, path)
        return Creator(levels, is_managed) if has_room and levels > 0 else None

    def _boolean(self, key: str, path: str) -> bool:
        text = self._properties.get(key)
        stated = boolean(text) if text else False
        if text is not None and stated is None and not VARIABLE.search(text.text):
            self._diagnostics.add(text, finding("invalid-switch", text=quoted(text.text)), path)
        return bool(stated)

    def _integer(self, key: str, default: int) -> int:
        """Parse an integer property as Hadoop does; return `default` if it is unset or invalid."""
        text = self._properties.get(key)
        if text is None or VARIABLE.search(text.text):  # already reported
            return default
        digits = text.text.strip()
        if len(digits) <= _MAX_DIGITS and _INTEGER.fullmatch(digits):
            number = int(digits, 16 if "x" in digits.lower() else 10)
            if -_MAX_INTEGER <= number < _MAX_INTEGER:
                return number
        found = finding("invalid-number", key=quoted(key), text=quoted(text.text))
        self._diagnostics.add(text, found)
        return default

    def _check_names(self) -> None:
        """Warn about keys that have no effect or are probably misspelled."""
        for key, text in self._properties.items():
            if not key.startswith(PREFIX):
                continue
            path, _, last = key.removeprefix(PREFIX).rpartition(SEPARATOR)
            path, _, prefix = path.rpartition(SEPARATOR)
            known = prefix in {_MANAGED, _FLEXIBLE}
            if known and path and last == _ENABLED and path not in self._children:
                found = finding("creation-below-unlisted-queue", queue=quoted(path))
                self._unlisted.add(text, found, path)
            elif known and last not in _READ_NAMES | _OTHER_NAMES:
                if similar := similar_name(last, _READ_NAMES):
                    words = {"name": quoted(last), "prefix": prefix, "meant": similar}
                    self._diagnostics.add(text, finding("unknown-creation-property", **words), path)
            elif not known and last in _READ_NAMES and prefix.startswith("auto"):
                similar = similar_name(prefix, (_MANAGED, _FLEXIBLE))
                words = {"name": quoted(prefix), "prefix": "a queue"}
                words["meant"] = f"{similar or _FLEXIBLE}.{last}"
                self._diagnostics.add(text, finding("unknown-creation-property", **words), path)

    def _used(
        self, entries: list[TemplateEntry], creators: Mapping[str, Creator], most_wildcards: int
    ) -> list[TemplateEntry]:
        """Return the templates that apply to created queues, and warn about all others."""
        used = []
        index: dict[tuple[str, int], int] = {}
        for path, creator in creators.items():
            if creator.is_managed:
                continue
            levels = path.count(SEPARATOR) + 1
            above = path
            while above:
                index[above, levels] = max(index.get((above, levels), 0), creator.levels)
                above = parent_path(above)
        for entry in entries:
            if entry.kind is TemplateKind.LEAF_OF_MANAGED:
                is_used = entry.path in creators and creators[entry.path].is_managed
                key = f"{_MANAGED}.{_ENABLED}"
            else:
                is_used = _is_used(entry, index, most_wildcards)
                key = f"{_FLEXIBLE}.{_ENABLED}"
            if is_used:
                used.append(entry)
            else:
                found = finding("unused-template", path=quoted(entry.path), key=key)
                self._unlisted.add(entry.position, found, entry.path)
        return used


def _is_used(
    entry: TemplateEntry, index: Mapping[tuple[str, int], int], most_wildcards: int
) -> bool:
    """Return whether queues may be created from the template.

    A creator is a queue below which YARN creates queues. `index` maps the path of a creator or one
    of its ancestors, together with the creator's level, to the number of levels that YARN creates
    below the creator.
    """
    names = entry.path.split(SEPARATOR)
    wildcards = trailing_wildcards(entry.path)
    if wildcards > most_wildcards:
        return False
    named = len(names) - wildcards
    needed = 2 if entry.kind is TemplateKind.PARENT else 1
    for level in range(1, len(names) + 1):
        prefix = SEPARATOR.join(names[: min(level, named)])
        if index.get((prefix, level), 0) >= len(names) - level + needed:
            return True
    return False


def unlisted_acl(
    path: str, acl: str, paths: Container[str], creation: QueueCreation | None
) -> Finding:
    """Return the finding about the ACL of a queue that is not listed."""
    template = f"{path}{SEPARATOR}" if path in [*TemplateKind] else ""
    if template or "" in path.split(SEPARATOR):
        return finding("acl-of-no-queue", property=f"{PREFIX}{ROOT}{SEPARATOR}{template}{acl}")
    above = path
    while above and above not in paths:
        above = parent_path(above)
    remedy = ""
    if template := _misspelled_template(path):
        remedy = phrase("template-for-created-queues", template=template)
    elif above and creation and creation.creates(path, above):
        # Suggest the parent's leaf template, because it takes precedence over all others.
        is_managed = creation.creators[above].is_managed
        kind = TemplateKind.LEAF_OF_MANAGED if is_managed else TemplateKind.LEAF
        access = Access.SUBMIT if acl == SUBMIT else Access.ADMIN
        key = template_property(parent_path(path), kind, access)
        return finding("acl-of-created-queue", queue=quoted(path), property=key)
    elif above and not (creation and above in creation.creators):
        child = path[len(above) + 1 :].partition(SEPARATOR)[0]
        remedy = phrase("add-to-list", name=child, list=f"{PREFIX}{above}.{LIST}")
    return finding("acl-of-unlisted-queue", queue=quoted(path), remedy=remedy)


def _misspelled_template(path: str) -> str:
    """Return the kind of template that the end of `path` probably misspells; empty if none."""
    above, _, last = path.rpartition(SEPARATOR)
    if above.rpartition(SEPARATOR)[2].startswith("auto"):
        last = f"{above.rpartition(SEPARATOR)[2]}.{last}"
    if "template" not in last.lower() and not last.startswith("auto"):
        return ""
    return similar_name(last, [*TemplateKind])
