"""Checks the capacity scheduler's rules that map applications to queues.

queuegate does not apply these rules. The checks are those of Hadoop 3.4, whose ResourceManager does
not start with an invalid rule: `CapacitySchedulerConfiguration.parseLegacyMappingRules`,
`MappingRuleCreator` and `MappingRuleValidationContextImpl`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NoReturn

from queuegate.policy.created_queues import TemplateKind
from queuegate.policy.names import SEPARATOR, parent_path
from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yarn.load import LoadedScheduler
from queuegate_server.formats.yarn.properties import boolean
from queuegate_server.formats.yarn.templates import PREFIX
from queuegate_server.formats.yarn.variables import LocatedText

FORMAT: Final = f"{PREFIX}mapping-rule-format"
JSON_RULES: Final = f"{PREFIX}mapping-rule-json"
BY_USER_OR_GROUP: Final = f"{PREFIX}queue-mappings"
PLACEMENT: Final = "yarn.scheduler.queue-placement-rules"
BY_APPLICATION: Final = f"{PLACEMENT}.app-name"

_READERS: Final = frozenset({"user-group", "app-name"})
"""The placement rules that read mappings."""
_BETWEEN_ENTRIES: Final = re.compile("[,\n]")
_MAPPING_FIELDS: Final = 3
"""The number of fields in `g:GROUP:QUEUE`."""
_VARIABLES: Final = frozenset(
    {"%user", "%primary_group", "%secondary_group", "%application", "%specified", "%default"}
)
_PLACEHOLDERS: Final[Mapping[str, str]] = {
    "user": "%user",
    "primaryGroup": "%primary_group",
    "secondaryGroup": "%secondary_group",
    "primaryGroupUser": "%primary_group.%user",
    "secondaryGroupUser": "%secondary_group.%user",
    "applicationName": "%application",
}
"""The last level of a rule's target, by policy. It follows `parentQueue`, if set."""
_OTHER_TEXTS: Final = ("parentQueue", "customPlacement", "value")
_BOOLEANS: Final = frozenset({"true", "True", "TRUE", "false", "False", "FALSE", "null"})
"""Texts that Hadoop's JSON library reads as booleans or null, after trimming."""
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "type": ("user", "group", "application"),
    "policy": (*_PLACEHOLDERS, "specified", "defaultQueue", "custom", "setDefaultQueue", "reject"),
    "fallbackResult": ("skip", "reject", "placeDefault"),
}


class _Number(str):
    """A JSON number as written, because Hadoop also reads numbers as text."""

    __slots__ = ()


def check_mappings(loaded: LoadedScheduler, diagnostics: Diagnostics) -> None:
    """Warn about mappings that the ResourceManager ignores or that prevent it from starting."""
    properties = loaded.file.properties
    placement = properties.get(PLACEMENT)
    if placement and _READERS.isdisjoint(map(str.strip, placement.text.split(","))):
        return
    targets = _Targets(loaded)
    stated, rules = properties.get(FORMAT), properties.get(JSON_RULES)
    if stated and "${" in stated.text:
        return
    if stated and stated.text not in {"legacy", "json"}:
        found = finding("unknown-mapping-format", key=FORMAT, text=quoted(stated.text))
        diagnostics.add(stated, found)
    elif stated and stated.text == "json":
        if rules and "${" not in rules.text:
            for fault in _json_faults(rules.text, targets):
                diagnostics.add(rules, fault)
    else:
        if rules:
            diagnostics.add(rules, finding("json-rules-not-read", rules=JSON_RULES, format=FORMAT))
        for key, types in ((BY_USER_OR_GROUP, ("u", "g")), (BY_APPLICATION, ())):
            if text := properties.get(key):
                _check_entries(text, types, targets, diagnostics)


def mapped_groups(properties: Mapping[str, LocatedText]) -> Mapping[str, str]:
    """Return the groups that are named in rules, each with the key. Invalid rules are skipped."""
    return {name: key for kind, name, key in _matches(properties) if kind in {"g", "group"}}


def _matches(properties: Mapping[str, LocatedText]) -> Iterator[tuple[str, str, str]]:
    """Yield the kind and the name that each rule matches, with the key."""
    if text := properties.get(BY_USER_OR_GROUP):
        for rule in _BETWEEN_ENTRIES.split(text.text):
            fields = _fields(rule)
            if len(fields) == _MAPPING_FIELDS and "${" not in rule:
                yield fields[0], fields[1], BY_USER_OR_GROUP
    if (text := properties.get(JSON_RULES)) and "${" not in text.text:
        try:
            rules = _json_rules(text.text) or []
        except (RecursionError, ValueError):
            return
        for each in rules:
            if isinstance(each, dict):
                yield _text(each.get("type")), _text(each.get("matches")), JSON_RULES


def _fields(rule: str) -> list[str]:
    return [field for each in rule.split(":") if (field := each.strip(TRIMMED))]


def _check_entries(
    text: LocatedText, types: tuple[str, ...], targets: "_Targets", diagnostics: Diagnostics
) -> None:
    """Check a list of `TYPE:NAME:QUEUE` entries (`NAME:QUEUE` entries if `types` is empty)."""
    form = "u:USER:QUEUE or g:GROUP:QUEUE" if types else "APPLICATION:QUEUE"
    for entry in _BETWEEN_ENTRIES.split(text.text):
        rule = entry.strip(TRIMMED)
        if not rule or "${" in rule:
            continue
        fields = _fields(rule)
        if len(fields) != 2 + bool(types) or (types and fields[0] not in types):
            diagnostics.add(text, finding("not-a-mapping-rule", rule=quoted(rule), form=form))
        else:
            for fault in targets.faults(quoted(rule), fields[-1]):
                diagnostics.add(text, fault)


def _json_faults(text: str, targets: "_Targets") -> Iterator[Finding]:
    """Yield the faults in a JSON list of rules."""
    try:
        rules = _json_rules(text)
    except RecursionError:
        yield finding("deep-json-rules", key=JSON_RULES)
        return
    except ValueError as error:
        yield finding("not-json-rules", key=JSON_RULES, why=error)
        return
    if rules is None:
        yield finding("no-list-of-rules", key=JSON_RULES)
        return
    for number, rule in enumerate(rules, 1):
        name = f"rule {number} of {JSON_RULES}"
        if isinstance(rule, dict):
            yield from _rule_faults(name, rule, targets)
        else:
            yield finding("rule-not-an-object", rule=name)


def _json_rules(text: str) -> list[Any] | None:
    """Return the rules in a JSON text, or None if the text has no list of rules. Raises
    RecursionError, or ValueError if it is not JSON.
    """
    # As in Hadoop, ignore any text after the JSON object, and accept no NaN or Infinity.
    decoder = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
    described, _ = decoder.raw_decode(text.lstrip(" \t\n\r"))
    rules = described.get("rules", []) if isinstance(described, dict) else None
    return rules if isinstance(rules, list) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _rule_faults(name: str, rule: Mapping[str, Any], targets: "_Targets") -> Iterator[Finding]:
    """Yield the faults in one rule."""
    for key, choices in _CHOICES.items():
        value = rule.get(key)
        if value in choices or (value is None and key == "fallbackResult"):
            continue
        if value is None:
            yield finding("rule-without-field", rule=name, key=key)
        else:
            words = {"key": key, "value": _shown(value), "known": ", ".join(choices)}
            yield finding("unknown-word-in-rule", rule=name, **words)
    matches = rule.get("matches")
    if not _text(matches):
        yield finding("rule-without-match", rule=name)
    elif matches == "*" and rule.get("type") == "group":
        yield finding("rule-for-all-groups", rule=name)
    needed = {"custom": "customPlacement", "setDefaultQueue": "value"}.get(str(rule.get("policy")))
    if needed and rule.get(needed) is None:
        yield finding("rule-without-field", rule=name, key=needed)
    for key in _OTHER_TEXTS:
        if isinstance(rule.get(key), list | dict):
            yield finding("field-not-text", rule=name, key=key)
    if not _is_boolean(create := rule.get("create")):
        yield finding("create-not-boolean", rule=name, value=_shown(create))
    yield from targets.faults(name, _target(rule))


def _is_boolean(value: Any) -> bool:
    """Return whether Hadoop's JSON library reads a value as a boolean or null."""
    if isinstance(value, _Number):
        return value.lstrip("-").isdigit()
    if isinstance(value, str):
        return not value or value.strip(TRIMMED) in _BOOLEANS
    return value is None or isinstance(value, bool)


def _text(value: Any) -> str:
    """Return a value as Hadoop's JSON library reads it as text; empty if it has no text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    return f" {quoted(text)}" if (text := _text(value)) else ""


def _target(rule: Mapping[str, Any]) -> str:
    """Return the target queue of a rule; `%default` if the rule names none."""
    policy, parent, target = (rule.get(key) for key in ("policy", "parentQueue", "customPlacement"))
    if policy == "custom" and isinstance(target, str | bool):
        return _text(target)
    if isinstance(policy, str) and policy in _PLACEHOLDERS and isinstance(parent, str | bool):
        return f"{_text(parent)}{SEPARATOR}{_PLACEHOLDERS[policy]}"
    return "%default"


class _Targets:
    """Checks the target queues of mapping rules."""

    def __init__(self, loaded: LoadedScheduler) -> None:
        self._partition = loaded.partition
        self._parents = loaded.file.parents()
        self._templates = loaded.file.templates
        self._may_exist = loaded.file.lacks_queues or loaded.file.lacks_properties

    def faults(self, rule: str, target: str) -> Iterator[Finding]:
        """Yield the reasons why Hadoop rejects a rule's target."""
        is_whole = _VARIABLES.isdisjoint(target.split(SEPARATOR))
        above, dot, last = target.rpartition(SEPARATOR)
        if dot:  # Hadoop then trims both parts of a path, but not a name.
            target = f"{above.strip(TRIMMED)}{SEPARATOR}{last.strip(TRIMMED)}"
        levels = target.rstrip(SEPARATOR).split(SEPARATOR)
        static = [*takewhile(lambda level: is_whole or level not in _VARIABLES, levels)]
        if "" in static:
            yield finding("empty-level-in-target", rule=rule)
        elif static:
            yield from self._faults(rule, static, is_whole=is_whole)

    def _faults(self, rule: str, levels: Sequence[str], *, is_whole: bool) -> Iterator[Finding]:
        """Check a target's levels up to its first variable; `is_whole` means there is none."""
        queues, names = self._partition.queues, self._partition.short_names
        # The first level may be the short name of a queue anywhere in the tree.
        first = levels[0] if levels[0] in queues else names.get(levels[0], "")
        path = SEPARATOR.join((first, *levels[1:]))
        if first and first not in queues:
            yield finding("ambiguous-target", rule=rule, name=quoted(first))
        elif path not in queues:
            if not self._may_exist and not self._is_created(path, is_whole=is_whole):
                yield finding("missing-target", rule=rule)
        elif is_whole and path in self._parents:
            yield finding("parent-as-target", rule=rule)
        elif not (is_whole or path in self._parents or self._may_exist):
            yield finding("target-below-leaf", rule=rule)

    def _is_created(self, path: str, *, is_whole: bool) -> bool:
        above = parent_path(path)
        if above in self._partition.queues:
            return self._templates.makes_parent(above)
        switch = self._templates.switches.get((parent_path(above), TemplateKind.ANY))
        return is_whole and switch is not None and bool(boolean(switch))
