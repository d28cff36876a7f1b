"""Detects likely mistakes in ACLs: implausible names, and text that is not a list of names.

All formats share the grammar `users groups`, with comma-separated names, and hence the same
mistakes. Because the text is untrusted, all patterns run in linear time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from queuegate.policy.acl import WHITE_SPACE, WILDCARD
from queuegate_server.formats.diagnostics import quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding


class Suspicion(NamedTuple):
    """A likely mistake in a name."""

    finding: Finding
    may_exist: bool = False
    """Whether a user or group with this name may exist anyway."""


_UNUSUAL: Final = "\v\f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
OTHER_WHITE_SPACE: Final = re.compile(f"[\t\n\r{_UNUSUAL}]")
"""Unicode White_Space except U+0020, the only separator between users and groups."""
_UNUSUAL_WHITE_SPACE: Final = re.compile(f"[{_UNUSUAL}]")
"""`OTHER_WHITE_SPACE` without tabs and line breaks."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Phrases for messages about a format's ACLs, and the white space to report in them."""

    nobody: str
    """How to write an ACL for nobody. Remedies show it after "for nobody "."""
    everyone: str
    """How to write an ACL for everyone. Remedies show it after "for everyone "."""
    compared: str
    """How names are compared, such as `Hadoop compares short names`."""
    white_space: re.Pattern[str]
    """White space to report, because it does not separate names."""
    separate_queues: str = "give each queue its own element"
    """How to write several queues."""


YUNIKORN: Final = Wording(
    'write " " in quotes',
    'write "*" in quotes',
    "YuniKorn compares whole names",
    OTHER_WHITE_SPACE,
)
YARN: Final = Wording(
    "write a single space", "write *", "Hadoop compares short names", _UNUSUAL_WHITE_SPACE
)
CAPACITY: Final = replace(YARN, separate_queues="separate queues with commas in a list")

_INVISIBLE: Final = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Invisible characters that are not white space: Unicode's Default_Ignorable_Code_Point, the
interlinear annotation controls, and the empty Braille pattern."""
_WHITE_SPACE_NAMES: Final = {"\t": "a tab", "\n": "a line break", "\r": "a line break"}
_TEMPLATE: Final = re.compile(
    r"""\{\{[^{}\n]{0,80}(?:\}\})?     # Helm, Jinja, Ansible
      | \{%[^\n]{0,80}                 # Jinja
      | [$\#]\{[^{}\n]{0,80}\}?        # shells, Terraform, Ruby
      | \$\([^()\n]{0,80}\)?           # shells, make
      | (?<![\w\\])\$[A-Za-z_]\w{0,80} # shells
      | %\(?[A-Za-z_][\w.-]{0,80}(?:\)s|%)
      | %(?:user|primary_group|secondary_group)\b
      | @[A-Za-z_][\w.-]{0,80}@
      | <[^<>\n]{1,80}>
      | (?<!\w)__[A-Z][A-Z0-9_]{0,80}__(?!\w)
    """,
    re.VERBOSE,
)
_DN: Final = re.compile(r"(?i)(?:^|[ ,])(?:cn|ou|dc|uid|samaccountname) ?= ?[^,= ]")
_DN_VALUE: Final = re.compile(r"(?i)(?:cn|uid|samaccountname) ?= ?([^,]{1,80})")
_EMPTY_ENTRY: Final = re.compile(r"^ ?,|,,|, ?\Z")
"""Matches an empty entry. Each format has its own checks for spaces beside commas."""
_ENTRY: Final = re.compile(r"[^,\n]+")
_SEPARATOR: Final = re.compile("[;\uff0c\u3001\uff1b\u060c\ufe50\ufe51\uff64\u201a]")
_LATIN: Final = "A-Za-z\xc0-\u024f"
_LOOK_ALIKE: Final = (
    r"\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b9\u03ba\u03bd"
    r"\u03bf\u03c1\u03c5\u0401\u0405-\u0408\u0410\u0412\u0415\u041a\u041c-\u041e\u0420-\u0423\u0425"
    r"\u0430\u0435\u043a\u043e\u0440\u0441\u0443\u0445\u0451\u0455-\u0458\u0475\u04af\u04bb\u04c0\u04cf"
    r"\u0501\u051b\u051d\u0578\u057d\u0585\u13a0-\u13ff"
    r"\uff01-\uff0b\uff0d-\uff1a\uff1c-\uff5e\U0001d400-\U0001d7ff"
)
"""Greek, Cyrillic, Armenian and other characters that look like ASCII."""
_MIXED: Final = re.compile(
    rf"(?<![^\W\d_])(?<![{_LATIN}{_LOOK_ALIKE}])(?=[{_LOOK_ALIKE}]*+[{_LATIN}])"
    rf"[{_LATIN}]*+([{_LOOK_ALIKE}])[{_LATIN}{_LOOK_ALIKE}]*+(?![^\W\d_])"
)
"""Matches a word of Latin letters and look-alikes, but not one with letters such as U+043B."""
_BRACKETS: Final = re.compile(r"^[(\[{]|^[^(\[{]*[)\]}]\Z")
"""Matches brackets around a name or a list, but not in a name such as `sales (EU)`."""
_WORD: Final = (
    "(?:(?:user|group|team|account|queue|admin|owner|role|acl|value)(?:name)?s?|names?|please|now"
    "|later|here|your|own|the|a|real|put|add|ldap|company|domain)"
)
_PLACEHOLDER: Final = re.compile(
    rf"""(?ix) ^(?: (?:change|replace|fix|fill|insert)[ _-]?(?:me|this|here)(?:[ _-]{_WORD})*
      | to[_-]?do | tb[cd] | undefined | unset | not[_-]?set | x{{3,}} | \?+ | \.\.+ | \u2026
      | (?:.*[ _-])?place[ _-]?holders?(?:[ _-]{_WORD})?
      | (?:fill|replace|change)[ _-]?(?:in|with)(?:[ _-]{_WORD})* | (?:{_WORD}[ _-])+here
      | (?:your|example|replace|insert)(?:[ _-]{_WORD})+[_-]?\d*
      | (?:user|group)[_-]?names? | (?:my|some)[ _-](?:user|group|team)s?
    )\Z"""
)
_QUOTE: Final = re.compile("[\"`\u201c-\u201f\u2018\u201b\xab\xbb]|^[']|[']$|^\u2019|\u2019$")
_NOBODY: Final = re.compile(
    "(?i)--?|none|nobody|no-?one|null|nil|nothing|empty|n/a|deny|denied|false|no|off"
)
_EVERYONE: Final = re.compile(
    r"(?i)(?:any|every)(?:one|body)|all|any|\*\*|\.\*|%|true|yes|on|allow"
)
_ONLY_ALONE: Final = re.compile("(?i)nobody|empty|all|any|allow|on|--?|deny|denied")
"""Words reported only if they are alone: among other words, they may be names or mean something
else."""


def suspicious_text(text: str, wording: Wording) -> Iterator[Finding]:
    """Yield the likely mistakes in an ACL's text for which `not_a_list` returns None."""
    space = wording.white_space.search(text)
    if space and text.strip(WHITE_SPACE) != WILDCARD:
        kind = _WHITE_SPACE_NAMES.get(space[0], f"U+{ord(space[0]):04X}")
        yield finding("white-space-in-acl", space=kind)
    if _EMPTY_ENTRY.search(text):
        yield finding("comma-without-name")


def not_a_list(text: str, wording: Wording) -> Finding | None:
    """Return the mistake if the text is clearly not a list of names; otherwise None."""
    if template := _TEMPLATE.search(text):
        return finding("unrendered-template", text=quoted(template[0]))
    if _DN.search(text):
        value = _DN_VALUE.search(text)
        example = f", such as {quoted(value[1].strip())}" if value else ""
        return finding("distinguished-name", example=example)
    if " " in text.strip() and _PLACEHOLDER.search(text.strip()):
        return finding("placeholder", text=quoted(text.strip()))
    return _word("group" if text.startswith(" ") else "user", text.strip(), wording)


def hide_known(text: str, known: frozenset[str]) -> str:
    """Replace each known name in an ACL with an inconspicuous name."""
    users, space, groups = text.partition(" ")
    return space.join(
        _ENTRY.sub(lambda entry: "x" if entry[0].strip(" ") in known else entry[0], field)
        for field in (users, groups)
    )


def split_name(text: str, known: frozenset[str]) -> str:
    """Return the known name that an ACL splits into unknown names at its first space, or ""."""
    first, _, second = text.partition(" ")
    parts = first.rpartition(",")[2].strip(), second.partition(",")[0].strip()
    return name if (name := " ".join(parts)) in known and known.isdisjoint(parts) else ""


def _word(kind: str, word: str, wording: Wording) -> Finding | None:
    """Return the mistake if a word seems to stand for nobody or everyone; otherwise None."""
    for meant, words, how in (
        ("nobody", _NOBODY, wording.nobody),
        ("everyone", _EVERYONE, wording.everyone),
    ):
        if words.fullmatch(word):
            return finding(
                "word-for-nobody-or-everyone", name=quoted(word), kind=kind, meant=meant, how=how
            )
    return None


def spelled_in_two_cases(text: str, known: frozenset[str]) -> Iterator[Finding]:
    """Yield a warning for each name that differs only in case from another in the same ACL list."""
    users, _, groups = text.partition(" ")
    for kind, field in (("user", users), ("group", groups)):
        spellings: dict[str, str] = {}
        for name in filter(None, (entry.strip() for entry in field.split(","))):
            first = spellings.setdefault(name.lower(), name)
            if first != name and not known.issuperset((first, name)):
                yield finding(
                    "names-that-differ-in-case", kind=kind, name=quoted(name), first=quoted(first)
                )


def intended_key(key: str, submit: str, admin: str) -> str:
    """Return the key (`submit` or `admin`) that `key` probably misspells; empty if neither."""
    letters = re.sub(r"[^a-z]", "", key.lower())
    if "acl" not in letters or "reservation" in letters or "priority" in letters:
        return ""
    if "sub" in letters:
        return submit
    return admin if "adm" in letters else ""


class _NameRule(NamedTuple):
    """A pattern for suspicious names."""

    pattern: re.Pattern[str]
    identifier: str
    may_exist: bool = False
    only: Wording | None = None
    """The only format to which the rule applies; None for all formats."""


_NAME_RULES: Final[tuple[_NameRule, ...]] = (
    _NameRule(_INVISIBLE, "invisible-character"),
    _NameRule(_MIXED, "look-alike-character"),
    _NameRule(re.compile(r"(?<=\w)[\u0300-\u036f]"), "combining-mark"),
    _NameRule(_BRACKETS, "brackets"),
    _NameRule(_QUOTE, "quotes"),
    _NameRule(_PLACEHOLDER, "placeholder-name"),
    _NameRule(re.compile(r"%[0-9A-Fa-f]{2}|&#?\w{1,20};"), "escape-in-name"),
    _NameRule(
        re.compile(r"(?i)^(?:[!#^~-]|(?:not|except|deny|denied)\Z)"),
        "negation",
    ),
    # Not in the accounts of Entra ID's guests, and not in names such as `C#` and `ops#1`.
    _NameRule(re.compile(r"(?i)(?<!#EXT)#(?!EXT#|\d*\Z)"), "comment-in-acl", may_exist=True),
    _NameRule(_SEPARATOR, "other-separator"),
    # Not in names such as `R&D` and `research & development`.
    _NameRule(re.compile(r"^[^ &]{3,}&(?=[^ ]{3,}\Z)|^&|&\Z"), "ampersand"),
    _NameRule(re.compile(r"\|"), "other-separator", may_exist=True),
    _NameRule(re.compile(r"\*(?=.)|(?<=.)\*|\?|(?<=\S)\[", re.DOTALL), "pattern"),
    _NameRule(re.compile(r"^[^\\]+\\+([^\\]+)\Z"), "backslash-before-name", may_exist=True),
    _NameRule(re.compile(r"\\"), "backslash"),
    _NameRule(
        re.compile(r"^([^@/]+)(?:/[^@/]+)?@[A-Z][A-Z0-9-]*(?:\.[A-Z0-9-]+)*\Z"),
        "kerberos-principal",
        may_exist=True,
    ),
    _NameRule(
        re.compile(r"(?i)^((?:u|g|user|group|users|groups|allow|deny)[:=])(?!.*\n)"),
        "prefix-of-name",
    ),
    _NameRule(re.compile("(?s)^[@%+](?=(.*))"), "mark-of-group", may_exist=True),
    _NameRule(re.compile("^/"), "path-as-name", may_exist=True, only=YARN),
    _NameRule(re.compile("^([^/]*)/"), "instance-of-principal", may_exist=True, only=YARN),
)
"""The rules in order of precedence."""
_QUEUE_RULES: Final = (
    *_NAME_RULES[:5],
    _NameRule(
        re.compile(rf"[ ,|]|(?<=\w{{3}})&(?=\w)|{_SEPARATOR.pattern}|{OTHER_WHITE_SPACE.pattern}"),
        "several-queues-in-one-name",
    ),
)


def suspicious_name(kind: str, name: str, wording: Wording) -> Suspicion | None:
    """Return the likely mistake in a name, or None. `kind` is `user`, `group` or `queue`."""
    rules = _NAME_RULES
    if kind == "queue":
        rules = _QUEUE_RULES
    elif not _ONLY_ALONE.fullmatch(name) and (word := _word(kind, name, wording)):
        return Suspicion(word)
    for pattern, identifier, may_exist, only in rules:
        if only in (None, wording) and (match := pattern.search(name)):
            words: dict[str, Any] = {
                "kind": kind,
                "name": quoted(name),
                "text": match[0],
                "code": ord((match[match.re.groups] or " ")[0]),
                "part": quoted(match[1]) if match.re.groups else "",
                "compared": wording.compared,
                "separate_queues": wording.separate_queues,
            }
            return Suspicion(finding(identifier, **words), may_exist)
    return None
