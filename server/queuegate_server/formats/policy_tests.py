"""Parses policy test files.

A file contains the path of a policy, users with their groups, and expected decisions with the same
keys as in the output of `queuegate check -o json`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from queuegate.policy.decision import Access, Reason
from queuegate.policy.names import similar_name
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.value_readers import Fields, Readers

_REASONS: Final = tuple(str(reason) for reason in Reason if reason is not Reason.UNSPECIFIED)
_COMPARED: Final = ("reason", "matched_queue", "matched_subject", "evaluated_queue")
"""The fields that an expected decision may contain besides `allowed`."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A query and the expected decision."""

    user: str
    queue: str
    access: str
    partition: str
    real_user: str
    allowed: bool
    more: Mapping[str, str]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """A named test, with an expectation for each user and queue."""

    name: str
    line: int
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class PolicyTests:
    """The contents of a test file."""

    policy: str
    """The scheduler's file; empty for the policy named in the settings."""
    config: str
    """The server's settings file; empty for the default settings."""
    users: Mapping[str, tuple[str, ...] | None]
    """Each user's groups; None for a user who does not exist."""
    tests: tuple[PolicyTest, ...]


def load_tests(data: bytes, file: str) -> tuple[PolicyTests, tuple[Diagnostic, ...]]:
    """Parse a test file. The result is incomplete if any diagnostic is an error."""
    document = read_yaml(data, file)
    diagnostics = Diagnostics(file)
    tests = PolicyTests("", "", {}, ())
    if not document.diagnostics:
        with diagnostics:
            tests = _Reader(diagnostics).file(document.root)
    return tests, (*document.diagnostics, *diagnostics.sorted())


class _Reader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self._fields = Fields(diagnostics)
        self._users: dict[str, tuple[str, ...] | None] = {}

    def file(self, root: Node | None) -> PolicyTests:
        """Decode a file of tests, and report what is missing."""
        readers: Readers = {
            "policy": ("policy", Fields.text),
            "config": ("config", Fields.text),
            "users": ("users", Fields.mapping),
            "tests": ("tests", Fields.mappings),
        }
        if root is None:
            self.diagnostics.add(None, finding("empty-test-file"))
            return PolicyTests("", "", {}, ())
        mapping = self._fields.mapping("the file", root)
        values = self._fields.values(mapping, readers, "a test file")
        policy, config = (_text(values.get(key)) for key in ("policy", "config"))
        if not policy and not config:
            self.diagnostics.add(root, finding("no-policy-to-test"))
        users = values.get("users")
        for name, (_, node) in users.entries.items() if users else ():
            self._users[name] = self._groups(name, node)
        if not values.get("tests"):
            self.diagnostics.add(root, finding("no-tests"))
        tests = tuple(map(self._test, values.get("tests") or ()))
        return PolicyTests(policy, config, self._users, tests)

    def _groups(self, user: str, node: Node) -> tuple[str, ...] | None:
        if isinstance(node, ScalarNode) and node.is_null:
            return None
        groups = self._fields.texts(f"users.{user}", node)
        return tuple(group.text for group in groups or ())

    def _test(self, node: MappingNode) -> PolicyTest:
        """Decode a test, which states one decision about each of its users and queues."""
        texts = ("name", "access", "partition", "real_user", *_COMPARED)
        readers: Readers = {
            **{key: (key, Fields.text) for key in texts},
            "user": ("user", self._one_or_more),
            "queue": ("queue", self._one_or_more),
            "allowed": ("allowed", lambda fields, key, value: (fields.boolean(key, value), value)),
        }
        values = self._fields.values(node, readers, "a test")
        for key in ("user", "queue", "allowed"):
            if not values.get(key):
                self.diagnostics.add(node, finding("test-without-key", key=key))
        for key in _COMPARED:
            if key in node.entries and values.get(key) is None:
                found = finding("expectation-without-value", key=key)
                self.diagnostics.add(node.entries[key][0], found)
        self._check_word(values.get("access"), [str(access) for access in Access])
        self._check_word(values.get("reason"), _REASONS)
        for user in values.get("user") or ():
            self._check_user(user)
        expectations = tuple(self._expectations(values))
        name = _text(values.get("name"))
        for first in expectations[:1]:
            name = name or f"{first.user} {first.access} {first.queue}"
        return PolicyTest(name, node.line, expectations)

    def _one_or_more(self, fields: Fields, key: str, node: Node) -> list[ScalarNode]:
        if isinstance(node, ScalarNode):
            text = fields.text(key, node)
            return [] if text is None else [text]
        return fields.texts(key, node) or []

    def _expectations(self, values: Mapping[str, Any]) -> Iterator[Expectation]:
        """Yield what a test expects of each pair of its users and queues."""
        allowed, at = values.get("allowed") or (False, None)
        for user, queue in product(values.get("user") or (), values.get("queue") or ()):
            yield Expectation(
                user.text,
                queue.text,
                _text(values.get("access")) or str(Access.SUBMIT),
                _text(values.get("partition")) or "default",
                _text(values.get("real_user")),
                allowed,
                {key: values[key].text for key in _COMPARED if values.get(key)},
                at.line if at else 0,
                at.column if at else 0,
            )

    def _check_word(self, node: ScalarNode | None, known: Collection[str]) -> None:
        if node is not None and node.text not in known:
            words, remedy = ", ".join(known), _suggestion(node.text, known)
            found = finding("unknown-word", word=quoted(node.text), known=words, remedy=remedy)
            self.diagnostics.add(node, found)

    def _check_user(self, node: ScalarNode) -> None:
        if node.text not in self._users:
            words = {"user": quoted(node.text), "name": node.text}
            remedy = _suggestion(node.text, self._users)
            self.diagnostics.add(node, finding("unknown-user", remedy=remedy, **words))


def _text(node: ScalarNode | None) -> str:
    return "" if node is None else node.text


def _suggestion(text: str, known: Collection[str]) -> str:
    similar = similar_name(text, known)
    return phrase("did-you-mean", meant=similar) if similar else ""
