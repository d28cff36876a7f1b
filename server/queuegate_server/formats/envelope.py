"""Extracts a policy or settings from an envelope: a ConfigMap manifest, chart values, or gzip.

Everything around the text is blanked out, so diagnostics show the file's own lines and columns.
Where that is impossible, as with base64, diagnostics show the key after the file name.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, NamedTuple

from queuegate_server.files.configmap import (
    CONFIGS,
    DEFAULTS,
    POLICY_GROUP,
    decompressed_key,
    queues_key,
)
from queuegate_server.files.safe_open import gunzip
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    TooManyErrors,
    finding_of,
)
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, FAIR_SCHEDULER, YUNIKORN
from queuegate_server.formats.source_text import MAX_BYTES, source_lines, split_lines
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode
from queuegate_server.formats.yaml_reader import read_documents

QUEUES_KEY: Final = "queues.yaml"
FORMATS_BY_KEY: Final[Mapping[str, str]] = {
    QUEUES_KEY: YUNIKORN,
    "fair-scheduler.xml": FAIR_SCHEDULER,
    "capacity-scheduler.xml": CAPACITY_SCHEDULER,
}
"""Policy formats by key in a ConfigMap or chart values."""
SITE_KEY: Final = "yarn-site.xml"
SETTINGS_KEY: Final = "queuegate.yaml"
"""The ConfigMap key for queuegate-server's settings."""
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_CHART_KEY: Final = "configuration"
"""The key for the policy in old YuniKorn charts."""
_CHART_VALUES: Final = "values"
"""The key for chart values embedded as text."""
_SECTIONS: Final[Mapping[str, Mapping[str, bool]]] = {
    "ConfigMap": {"data": False, "binaryData": True},
    "Secret": {"stringData": False, "data": True},
}
"""The data sections of each kind of object, and whether their values are base64-encoded."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_LAYERS: Final = 3
"""The maximum number of nested envelopes: gzip, a manifest, and gzip within the manifest."""
_MAX_DEPTH: Final = 16
_KEYS: Final = "|".join(map(re.escape, (*FORMATS_BY_KEY, SITE_KEY, _CHART_KEY)))
_KEY: Final = re.compile(
    rf"""(?:^|[\s{{,])["']?(?:{_KEYS})(?:\.gz)?["']?\s*:(?:\s|"|$)""".encode(), re.MULTILINE
)
_XML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<")
_PLAIN_POLICY: Final = re.compile(rb"^partitions[ \t]*:", re.MULTILINE)
"""The top-level key of a bare policy. Checked first, since a policy's comments may resemble an
envelope."""
_CONFIG_MAP: Final = re.compile(rb"""["']?kind["']?\s*:\s*["']?ConfigMap\b""")
_API_VERSION: Final = re.compile(rb"""(?:^|[\s{,])["']?apiVersion["']?\s*:""")
_XML_DECLARATION: Final = re.compile(r"<\?xml[^>]*\?>")
_OTHER_DOCUMENT: Final = re.compile(r"^(?:---|\.\.\.|%)", re.MULTILINE)


class OpenedText(NamedTuple):
    """The text of a policy or settings file, taken out of its envelope."""

    data: bytes
    file: str
    indent: int = 0
    """The number of columns by which each line was dedented."""
    key: str = ""
    """The text's key in its envelope; empty if there is no envelope."""

    def in_file(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Convert the columns in diagnostics from the dedented text to the file."""
        return tuple(
            replace(each, column=each.column + self.indent)
            if self.indent and each.column and each.file == self.file
            else each
            for each in diagnostics
        )


@dataclass(frozen=True, slots=True)
class _Section:
    """A mapping that may contain policies: a Kubernetes object's data, or part of chart values."""

    values: MappingNode
    config_map: str
    """The name of the ConfigMap; empty for chart values."""
    is_binary: bool
    is_chart: bool
    group: str
    """The policy group; empty if not set."""


class _Value(NamedTuple):
    """A value that may contain a policy or settings."""

    key: str
    node: ScalarNode
    section: _Section


def open_envelope(data: bytes, file: str, max_bytes: int = MAX_BYTES, key: str = "") -> OpenedText:
    """Extract the policy, or the text at `key`, from its envelope; return bare text unchanged.

    `file` is the name shown in diagnostics. Raises ParseError if the envelope is invalid, contains
    several policies, or exceeds `max_bytes` when decompressed.
    """
    opened = OpenedText(data, file)
    for _ in range(_MAX_LAYERS):
        if opened.data.startswith(_GZIP_MAGIC):
            opened = opened._replace(data=_decompressed(opened.data, max_bytes))
        elif _may_hold_policy(opened.data) and (inner := _chosen(opened, key)) is not None:
            opened = inner
        else:
            break
    return opened


def open_settings(data: bytes, file: str) -> OpenedText:
    """Extract the settings from a ConfigMap manifest, or return any other text unchanged.

    `file` is the name shown in diagnostics. Raises ParseError if the manifest is invalid or does
    not contain exactly one version of the settings.
    """
    envelope = OpenedText(data, file)
    if PurePath(file).name in _KUSTOMIZATIONS:
        raise ParseError(None, finding("kustomization"))
    if not _API_VERSION.search(data):
        return envelope
    diagnostics = Diagnostics(file)
    try:
        documents = read_documents(data, diagnostics)
    except TooManyErrors:  # repeated keys; the settings loader reports them
        return envelope
    if not any(map(is_manifest, documents)):
        return envelope
    values = [
        _Value(SETTINGS_KEY, value, section)
        for document in documents
        for section in _sections(document)
        if not section.is_chart
        and isinstance(value := section.values.get(SETTINGS_KEY), ScalarNode)
    ]
    if not values:
        raise ParseError(None, finding("no-settings-in-manifest", key=SETTINGS_KEY))
    return _unwrapped(envelope, _only(values, "versions of the settings", diagnostics))


def is_manifest(document: Node | None) -> bool:
    """Return whether the document is a Kubernetes object."""
    return isinstance(document, MappingNode) and {"apiVersion", "kind"} <= document.entries.keys()


def _may_hold_policy(data: bytes) -> bool:
    """Return whether the text may be a manifest or chart values with a policy."""
    if _XML.match(data) or _PLAIN_POLICY.search(data):
        return False
    return _KEY.search(data) is not None or _CONFIG_MAP.search(data) is not None


def _decompressed(data: bytes, max_bytes: int) -> bytes:
    try:
        text = gunzip(data, max_bytes)
    except EOFError:
        raise ParseError(None, finding("truncated-gzip")) from None
    except ValueError:
        raise ParseError(None, finding("invalid-gzip")) from None
    if len(text) > max_bytes:
        raise ParseError(None, finding("large-gzip", most=max_bytes))
    return text


def _chosen(envelope: OpenedText, key: str) -> OpenedText | None:
    """Return the only policy, or text at `key`, in a manifest or chart values; None for other text.

    Raises ParseError if the policy is missing or ambiguous, or cannot be decoded.
    """
    diagnostics = Diagnostics(envelope.file)
    try:
        documents = read_documents(envelope.data, diagnostics)
    except TooManyErrors:  # repeated keys; the policy loader reports them
        return None
    if not any(isinstance(each, MappingNode | SequenceNode) for each in documents):
        return None
    if any(isinstance(each, MappingNode) and "partitions" in each.entries for each in documents):
        return None
    sections = [section for document in documents for section in _sections(document)]
    groups = {each.config_map: each.group for each in sections if each.group}
    # The scheduler merges its two ConfigMaps, in which yunikorn-configs takes precedence.
    merged_group = groups.get(CONFIGS) or groups.get(DEFAULTS, "")
    values: list[_Value] = []
    for each in sections:
        group = merged_group if each.config_map in {CONFIGS, DEFAULTS} else each.group
        values += _values_of(each, group, key)
    values = [each for each in values if each.section.config_map == CONFIGS] or values
    if not values:
        group = merged_group or next(iter(groups.values()), "")
        if not (key or group or any(map(_has_config_map, documents))):
            return None
        words = {
            "key": key or _queues_key(group),
            "named": f", which {POLICY_GROUP} names" if group and not key else "",
            "what": key or "the policy",
        }
        raise ParseError(None, finding("no-policy-in-manifest", **words))
    content = f"versions of {key}" if key else "policies"
    return _unwrapped(envelope, _only(values, content, diagnostics))


def _only(values: list[_Value], content: str, diagnostics: Diagnostics) -> _Value:
    """Return the first value. Raises ParseError if the values differ or a key is repeated."""
    if diagnostics.error_count:
        # Repeated keys are ambiguous, because Kubernetes may use either value.
        repeated = diagnostics.sorted()[0]
        raise ParseError(repeated, finding_of(repeated))
    first, *others = values
    different = [each for each in others if each.node.text != first.node.text]
    if different:
        key, node, _ = different[0]
        found = finding(
            "several-values",
            what=content,
            first=first.key,
            first_line=first.node.line,
            second=key,
            line=node.line,
        )
        raise ParseError(node, found)
    return first


def _unwrapped(envelope: OpenedText, value: _Value) -> OpenedText:
    """Return a value's text, base64-decoded if necessary. Raises ParseError."""
    key = decompressed_key(value.key)
    if value.section.is_binary:
        return OpenedText(_decoded(value), f"{envelope.file} ({value.key})", key=key)
    return _in_place(envelope, value)._replace(key=key)


def _has_config_map(document: Node) -> bool:
    """Return whether the document is a ConfigMap or a list that contains one."""
    if not isinstance(document, MappingNode):
        return False
    items = document.get("items")
    nodes = [document, *(items.items if isinstance(items, SequenceNode) else ())]
    return any(
        isinstance(each, MappingNode) and _text(each.get("kind")) == "ConfigMap" for each in nodes
    )


def _sections(document: Node) -> Iterator[_Section]:
    """Yield the document's mappings that may contain policies."""
    stack: list[tuple[Node, int]] = [(document, 0)]
    seen: set[int] = set()
    while stack:
        node, depth = stack.pop()
        # Visit an aliased node only once. Each alias is the same object as its anchor.
        if id(node) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            stack += [(item, depth + 1) for item in reversed(node.items)]
        elif isinstance(node, MappingNode):
            sections = _SECTIONS.get(_text(node.get("kind")))
            if sections is not None:
                yield from _sections_of_object(node, sections)
            else:
                group = _text(node.get(POLICY_GROUP))
                yield _Section(node, "", is_binary=False, is_chart=True, group=group)
                below = [value for _, value in node.entries.values()]
                stack += [(value, depth + 1) for value in reversed(below)]


def _sections_of_object(node: MappingNode, sections: Mapping[str, bool]) -> Iterator[_Section]:
    metadata = node.get("metadata")
    name = _text(metadata.get("name")) if isinstance(metadata, MappingNode) else ""
    texts = [(node.get(section), is_binary) for section, is_binary in sections.items()]
    mappings = [(each, is_binary) for each, is_binary in texts if isinstance(each, MappingNode)]
    groups = (_text(each.get(POLICY_GROUP)) for each, is_binary in mappings if not is_binary)
    group = next(filter(None, groups), "")
    for values, is_binary in mappings:
        yield _Section(values, name, is_binary, is_chart=False, group=group)


def _values_of(section: _Section, group: str, only: str) -> Iterator[_Value]:
    wanted = {only} if only else {*FORMATS_BY_KEY} - {QUEUES_KEY} | {_queues_key(group)}
    for key, (_, value) in section.values.entries.items():
        plain = decompressed_key(key)
        is_chart = key == _CHART_KEY and not only and "partitions:" in _text(value)
        if (plain in wanted or is_chart) and isinstance(value, ScalarNode):
            yield _Value(key, value, section)
    # Chart values may be embedded as text, as in an Argo CD Application.
    text = section.values.get(_CHART_VALUES) if section.is_chart else None
    if isinstance(text, ScalarNode) and _KEY.search(text.text.encode()):
        yield _Value(_CHART_VALUES, text, section)


def _queues_key(group: str) -> str:
    return queues_key({POLICY_GROUP: group.encode()})


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, ScalarNode) else ""


def _decoded(value: _Value) -> bytes:
    try:
        return base64.b64decode("".join(value.node.text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ParseError(value.node, finding("not-base64", key=value.key)) from None


def _in_place(envelope: OpenedText, value: _Value) -> OpenedText:
    """Return a value's text, on the same lines as in the file if possible."""
    text = value.node.text
    lines = source_lines(envelope.data)
    start = value.node.line - 1
    header = lines[start][value.node.column - 1 :]
    if not header.startswith("|"):
        # Show the key instead of the file's lines, because only a literal block's lines match them.
        return OpenedText(text.encode(), f"{envelope.file} ({value.key} on line {value.node.line})")
    above = "\n" * (start + 1)
    body = lines[start + 1 : start + 1 + len(split_lines(text.rstrip("\n")))]
    indent = min((len(line) - len(line.lstrip(" ")) for line in body if line.strip()), default=0)
    if text.lstrip().startswith("<"):
        # Blank out the XML declaration, because it is valid only at the start. Keep the text
        # dedented, because indentation may become part of an ACL.
        text = _XML_DECLARATION.sub(lambda match: " " * len(match[0]), text, count=1)
    elif not _OTHER_DOCUMENT.search(text):
        # Keep the indentation, because YAML accepts text whose lines are all indented.
        return OpenedText("\n".join([*[""] * (start + 1), *body, ""]).encode(), envelope.file)
    return OpenedText(f"{above}{text}".encode(), envelope.file, indent)
