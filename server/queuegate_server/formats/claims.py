"""Parses claims files, which contain claims about a policy and facts about users and groups.

Claims and facts are sentences in a small language, defined by `FORMS` and `FACT_FORMS`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from queuegate.policy.claims import (
    EVERYONE,
    Claim,
    Everyone,
    Never,
    NoNewAccess,
    NotBoth,
    Only,
    Use,
    Uses,
    Within,
)
from queuegate.policy.decision import Access
from queuegate.policy.names import similar_name
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition
from queuegate.policy.worlds import Exclusion, Inclusion, OpenWorld, Subject
from queuegate_server.formats.diagnostics import Diagnostics, ParseError, finding_of, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.source_text import decode, split_lines
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.value_readers import Fields, Readers

FORMS: Final = (
    "only SUBJECT, SUBJECT may submit QUEUE",
    "nobody may submit QUEUE",
    "nobody may submit both QUEUE and QUEUE",
    "never SUBJECT submit QUEUE",
    "everyone may submit QUEUE",
    "everyone in group:NAME may submit QUEUE",
    "submit QUEUE within submit QUEUE",
    "no new access compared with FILE",
)
"""The syntax of claims. `admin` can be used instead of `submit`."""
FACT_FORMS: Final = ("NAME within NAME", "NAME and NAME disjoint")
_CLAIMS_KEY: Final = "claims"
_KEY_LINE: Final = re.compile(rf"""[\s{{]*["']?{_CLAIMS_KEY}["']?\s*:""", re.IGNORECASE)
AND_BELOW: Final = ".**"
"""The suffix that makes a queue path include all queues below it."""

_NAME: Final = r'(?:"[^"]+"|[^\s,"][^\s,]*)'
_SUBJECT: Final = rf"(?:user|group|proxy):{_NAME}"
_ACCESS: Final = r"(?:submit|admin)"
_QUEUE: Final = r'(?:"[^"]+"(?:\.\*\*)?|[^\s"]+)'
_USE: Final = f"(?P<a>{_ACCESS}) (?P<q>{_QUEUE})"


def _form(pattern: str) -> re.Pattern[str]:
    """Compile a sentence's pattern. Each space in it matches one or more white space characters."""
    return re.compile(pattern.replace(" ", r"\s+"))


_NOBODY: Final = re.compile(r"^(?:no[ -]?(?:one|body)|none)\b", re.IGNORECASE)
_UNQUOTED: Final = _form(
    r'(?P<kind>user|group|proxy):(?P<name>[^\s",:]+'
    r'(?: (?!(?:may|submit|admin|within|and|disjoint)\b)[^\s",:]+)+)'
)
_INCLUSION: Final = _form(rf"(?P<one>{_NAME}|{_SUBJECT}) within (?P<other>{_NAME}|{_SUBJECT})")
_EXCLUSION: Final = _form(
    rf"(?P<one>{_NAME}|{_SUBJECT}) and (?P<other>{_NAME}|{_SUBJECT}) disjoint"
)


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """A claim as written in a claims file, with its position."""

    text: str
    line: int
    column: int
    match: re.Match[str]


@dataclass(frozen=True, slots=True)
class ClaimsFile:
    """The contents of a claims file."""

    partition: str = ""
    """The partition to which the claims apply; empty for the policy's only or default partition."""
    world: OpenWorld = field(default_factory=OpenWorld)
    claims: tuple[StatedClaim, ...] = ()


class BadClaim(ValueError):
    """Raised for a claim that does not fit the policy. The message says why."""


def load_claims(data: bytes, diagnostics: Diagnostics, file: str) -> ClaimsFile:
    """Parse a claims file. If errors are added to `diagnostics`, the result is incomplete."""
    document = read_yaml(data, file)
    if not document.diagnostics:
        with diagnostics:
            return _Reader(diagnostics).file(document.root)
    for each in document.diagnostics:
        diagnostics.add(each, finding_of(each))
    with suppress(ParseError):
        if not any(map(_KEY_LINE.match, split_lines(decode(data)))):
            diagnostics.add(None, finding("no-claims-key"))
    return ClaimsFile()


def _quote_names(text: str) -> str:
    """Put double quotes around names that contain a space."""
    return _UNQUOTED.sub(r'\g<kind>:"\g<name>"', text)


class _Reader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._fields = Fields(diagnostics)

    def file(self, root: Node | None) -> ClaimsFile:
        """Decode a claims file, and report what is missing."""
        readers: Readers = {
            "partition": ("partition", Fields.text),
            "facts": ("facts", Fields.texts),
            _CLAIMS_KEY: ("claims", Fields.texts),
        }
        mapping = root if isinstance(root, MappingNode) else None
        values = self._fields.values(mapping, readers, "a claims file")
        keys = mapping.entries if mapping else {}
        if not any(similar_name(key.lower(), (_CLAIMS_KEY,)) for key in keys):
            self._diagnostics.add(root, finding("no-claims-key"))
        elif not values.get("claims") and not self._diagnostics.error_count:
            self._diagnostics.add(root, finding("no-claims"))
        claims = [claim for node in values.get("claims") or () for claim in self._claim(node)]
        partition = values.get("partition")
        return ClaimsFile(
            partition.text if partition else "", self._world(values.get("facts") or ()), (*claims,)
        )

    def _claim(self, node: ScalarNode) -> Iterator[StatedClaim]:
        """Yield the claim of an entry; report an entry that has no known form, with the form that
        was probably meant.
        """
        text = node.text.strip()
        if match := next(filter(None, (each.fullmatch(text) for each in _CLAIMS)), None):
            yield StatedClaim(text, node.line, node.column, match)
            return
        first = node.text.split()[:1]
        similar = [form for form in FORMS if form.split()[:1] == first] or FORMS
        forms, remedy = " or ".join(map(quoted, similar)), ""
        meant = _quote_names(_NOBODY.sub("nobody", text))
        if meant != text and any(each.fullmatch(meant) for each in _CLAIMS):
            remedy = phrase("write", text=meant) + (phrase("quote-names") if '"' in meant else "")
        found = finding("not-a-claim", text=quoted(node.text), forms=forms, remedy=remedy)
        self._diagnostics.add(node, found)

    def _world(self, nodes: list[ScalarNode] | tuple[()]) -> OpenWorld:
        """Return what the facts say about everyone; report facts that contradict each other."""
        inclusions: dict[Inclusion, ScalarNode] = {}
        exclusions: list[Exclusion] = []
        for node in nodes:
            text = node.text.strip()
            within, disjoint = _INCLUSION.fullmatch(text), _EXCLUSION.fullmatch(text)
            match = within or disjoint
            if match is None:
                forms, meant = " or ".join(map(quoted, FACT_FORMS)), _quote_names(text)
                quotes = f"{phrase('quote-names')}: {meant}" if meant != text else ""
                found = finding("not-a-fact", text=quoted(text), forms=forms, quotes=quotes)
                self._diagnostics.add(node, found)
                continue
            one, other = _subject(match["one"]), _subject(match["other"])
            if disjoint and other.kind is SubjectKind.USER:
                one, other = other, one
            if other.kind is not SubjectKind.GROUP or one.kind is SubjectKind.PROXY:
                self._diagnostics.add(node, finding("fact-about-no-group", text=quoted(text)))
            elif within:
                inclusions[Inclusion(one, other.name)] = node
            else:
                exclusions.append(Exclusion(one, other.name))
        world = OpenWorld((*inclusions,), (*exclusions,))
        for (subject, _), node in inclusions.items():
            if not any(world.people((subject,))):
                self._diagnostics.add(node, finding("impossible-facts", subject=subject))
        return world


def bind(stated: StatedClaim, partition: Partition, old: Callable[[str], Partition]) -> Claim:
    """Bind a claim to a partition. `old` returns the same partition from the given policy file.

    Raises BadClaim for an invalid queue path.
    """
    return _CLAIMS[stated.match.re](_Words(stated.match.groupdict(), partition, old))


@dataclass(frozen=True, slots=True)
class _Words:
    """A claim's words by capture group, with methods that resolve them in a partition."""

    _words: Mapping[str, str]
    _partition: Partition
    _old: Callable[[str], Partition]

    def uses(self) -> Uses:
        text = self._words["q"]
        below = text.endswith(AND_BELOW)
        return Uses(
            Access(self._words["a"]), self._path(text.removesuffix(AND_BELOW)), with_below=below
        )

    def use(self, access: str = "a", queue: str = "q") -> Use:
        text = self._words[queue]
        if text.endswith(AND_BELOW):
            message = f"{quoted(text)}: this claim accepts only single queues"
            raise BadClaim(f"{message}: write them without {AND_BELOW}")
        return Use(Access(self._words[access]), self._path(text))

    def _path(self, text: str) -> str:
        path = self._partition.canonical_path(text.strip('"'))
        if path is None:
            raise BadClaim(f"{quoted(text)} is not the full path of a queue, such as root.a.b")
        return path

    def subjects(self) -> frozenset[Subject]:
        return frozenset(_subject(text) for text in re.findall(_SUBJECT, self._words["who"]))

    def subject(self) -> Subject:
        text = self._words.get("who")
        return _subject(text) if text else EVERYONE

    def old(self) -> Partition:
        return self._old(self._words["file"].strip('"'))


_CLAIMS: Final[Mapping[re.Pattern[str], Callable[[_Words], Claim]]] = {
    _form(rf"only (?P<who>{_SUBJECT}(?:\s*,\s*{_SUBJECT})*) may {_USE}"): (
        lambda words: Only(words.subjects(), words.uses())
    ),
    _form(f"nobody may {_USE}"): lambda words: Only(frozenset(), words.uses()),
    _form(rf"nobody may (?P<a>{_ACCESS}) both (?P<q>{_QUEUE}) and (?P<r>{_QUEUE})"): (
        lambda words: NotBoth(words.use(), words.use(queue="r"))
    ),
    _form(f"never (?P<who>{_SUBJECT}) {_USE}"): lambda words: Never(words.subject(), words.uses()),
    _form(f"everyone(?: in (?P<who>group:{_NAME}))? may {_USE}"): (
        lambda words: Everyone(words.subject(), words.uses())
    ),
    _form(f"{_USE} within (?P<b>{_ACCESS}) (?P<r>{_QUEUE})"): (
        lambda words: Within(words.use(), words.use("b", "r"))
    ),
    _form(r"no new access compared with (?P<file>\S.*)"): lambda words: NoNewAccess(words.old()),
}


def _subject(text: str) -> Subject:
    """Parse a subject. A name without a prefix refers to a group."""
    before, colon, name = text.partition(":")
    if not colon or before not in {"user", "group", "proxy"}:
        return Subject(SubjectKind.GROUP, _unquoted(text))
    return Subject(SubjectKind(before), _unquoted(name))


def _unquoted(name: str) -> str:
    return name[1:-1] if name.startswith('"') else name
