"""Reads the properties that set pod labels and annotations in Spark and Flink. Pure.

The rules come from Spark's `SparkSubmitArguments` and `KubernetesUtils`, the Spark operator's
`submission.go`, Flink's `StructuredOptionsSplitter`, `ConfigurationUtils` and
`KubernetesConfigOptions`, and the Flink operator's `ConfigObjectNode`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from queuegate_server.admission.queues.model import FETCHED, NOT_TEXT, OPTIONS, UNREADABLE
from queuegate_server.admission.queues.positions import text_of
from queuegate_server.admission.server.webhook_limits import (
    MAX_PROPERTY_ENTRIES,
    MAX_PROPERTY_TEXT,
    MAX_PROPERTY_TEXTS,
)
from queuegate_server.formats.yaml_nodes import MappingNode, ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml

_MAX_FLINK_NAME: Final = 400
"""The maximum length of the property names that are read. A label's key has up to 317 characters,
so no property that sets a label has a longer name."""
_SPARK_KEY: Final = re.compile(
    r"spark\.kubernetes\.(?:driver\.|executor\.)?(label|annotation)\.(.+)", re.DOTALL
)
"""A Spark property that sets a pod label or annotation."""
_SPARK_TEMPLATES: Final = frozenset(
    {
        "spark.kubernetes.driver.podTemplateFile",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.kubernetes.scheduler.volcano.podGroupTemplateFile",
    }
)
"""Properties with the address of a template, which Spark reads when it creates the pods."""
_FLINK_KEY: Final = re.compile(
    r"kubernetes\.(?:jobmanager|taskmanager)\.(labels|annotations)(?:\.(.+))?", re.DOTALL
)
"""A Flink property that sets pod labels or annotations: all of them, or the one whose key
follows."""
_FLINK_TEMPLATE: Final = "kubernetes.pod-template-file"
"""The prefix of properties that contain the path of a pod template."""
_FLINK: Final = "kubernetes."
_APPLICATION: Final = "mainApplicationFile"
_ARGUMENTS: Final = "arguments"


class Property(NamedTuple):
    """A label or annotation that a property sets."""

    name: str
    """The property's name in the object."""
    map_name: str
    """`labels` or `annotations`."""
    key: str
    value: object


class Unreadable(NamedTuple):
    """A property that may set any label."""

    name: str
    stands_for: str
    """The placeholder for the queue names: FETCHED, UNREADABLE or OPTIONS."""
    text: str
    """The property's value."""


Found = Property | Unreadable | None
"""The result of one step of the search."""


@dataclass(slots=True)
class TextCount:
    """Counts the strings with labels or annotations in an object, to limit the time they take."""

    texts: int = 0


def in_spark_conf(properties: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the label or annotation that each Spark property sets, and None for every property that
    sets neither.

    The Spark operator passes NAME=VALUE to `spark-submit`, which ends the name at the first equals
    sign.
    """
    for name, value in properties.items():
        key, sign, rest = name.partition("=")
        key = key.strip()
        text = f"{rest}={text_of(value)}" if sign else value
        if key in _SPARK_TEMPLATES and text_of(text):
            yield Unreadable(name, FETCHED, text_of(text))
            continue
        match = _SPARK_KEY.fullmatch(key)
        yield None if match is None else Property(name, f"{match[1]}s", match[2], text)


def in_arguments(specification: Mapping[str, Any]) -> Iterator[Unreadable]:
    """Yield the member of a SparkApplication that `spark-submit` would read as an option.

    The Spark operator appends the application file, if there is one, and the arguments to the
    options. Options end at the first text that is not an option.
    """
    file, arguments = specification.get(_APPLICATION), specification.get(_ARGUMENTS)
    texts = [file] if text_of(file) else arguments if isinstance(arguments, list) else []
    if texts and text_of(texts[0]).startswith("-"):
        yield Unreadable(
            _APPLICATION if text_of(file) else _ARGUMENTS, OPTIONS, f"{file}{arguments}"
        )


def in_flink_configuration(configuration: Mapping[str, Any], count: TextCount) -> Iterator[Found]:
    """Yield the labels and annotations that Flink properties set, and None after each short step.

    Newer versions of the Flink operator join the names of nested maps with dots.

    Args:
        configuration: The properties.
        count: Counts the strings in all properties of the object. Strings after the first
            MAX_PROPERTY_TEXTS are unreadable.
    """
    waiting = [("", iter(configuration.items()))]
    while waiting:
        above, members = waiting[-1]
        member = next(members, None)
        if member is None:
            waiting.pop()
            continue
        yield None
        name, value = f"{above}{member[0]}", member[1]
        if len(name) > _MAX_FLINK_NAME or not _may_be_flink(name):
            continue
        if isinstance(value, dict):
            waiting.append((f"{name}.", iter(value.items())))
            continue
        text = ";".join(map(text_of, value)) if isinstance(value, list) else text_of(value)
        if name.startswith(_FLINK_TEMPLATE) and text:
            yield Unreadable(name, FETCHED, text)
        match = _FLINK_KEY.fullmatch(name)
        if match is not None and match[2]:
            yield Property(name, match[1], match[2], value)
        elif match is not None and text:
            count.texts += 1
            if count.texts > MAX_PROPERTY_TEXTS:
                yield Unreadable(name, UNREADABLE, text)
            else:
                yield from _in_text(name, match[1], text)


def _may_be_flink(name: str) -> bool:
    return name.startswith(_FLINK) or _FLINK.startswith(f"{name}.")


def _in_text(name: str, map_name: str, text: str) -> Iterator[Property | Unreadable]:
    """Yield the entries in a string, as each version of Flink may read them."""
    pairs: list[tuple[str, str]] = []
    is_readable = False
    if len(text) <= MAX_PROPERTY_TEXT and text.count(",") + text.count("\n") < MAX_PROPERTY_ENTRIES:
        for read in (_pairs_in_yaml, flink_pairs):
            try:
                pairs += read(text)
                is_readable = True
            except ValueError:
                continue
    if not is_readable:
        yield Unreadable(name, UNREADABLE, text)
    for key, value in dict.fromkeys(pairs):
        yield Property(name, map_name, key, value)


def flink_pairs(text: str) -> list[tuple[str, str]]:
    """Return the entries in a string such as `k1:v1,k2:v2`, without surrounding blanks.

    Parts may be quoted with single or double quotes; a doubled quote stands for a literal quote.
    Quotes are removed from an entry before it is split into key and value.

    Raises:
        ValueError: Flink would reject the text.
    """
    pairs = []
    for entry in _split(text, ","):
        key, *values = _split(entry, ":")
        if len(values) != 1:
            raise ValueError("an entry is not a key and a value")
        pairs.append((key.strip(), values[0].strip()))
    return pairs


def _split(text: str, delimiter: str) -> list[str]:
    """Split a string at a delimiter outside quotes. Raises ValueError."""
    parts = []
    position = 0
    while position <= len(text):
        quote = text[position : position + 1]
        if quote in {"'", '"'}:
            part, position = _quoted(text, position, quote)
        else:
            end = text.find(delimiter, position)
            end = len(text) if end < 0 else end
            part, position = text[position:end], end
            if "'" in part or '"' in part:
                raise ValueError("a quote within an unquoted part")
        if position < len(text) and text[position] != delimiter:
            raise ValueError("text after a quoted part")
        parts.append(part)
        position += 1
    return parts


def _quoted(text: str, start: int, quote: str) -> tuple[str, int]:
    """Return a quoted part without its quotes, and the position after it. Raises ValueError."""
    part = ""
    position = start + 1
    while True:
        end = text.find(quote, position)
        if end < 0:
            raise ValueError("a quote is not closed")
        part += text[position:end]
        if text[end + 1 : end + 2] != quote:
            return part, end + 1
        part += quote
        position = end + 2


def _pairs_in_yaml(text: str) -> list[tuple[str, str]]:
    """Return the entries of a map in YAML. Raises ValueError if the text is not a map."""
    if "{" not in text and ": " not in text and "\n" not in text:
        raise ValueError("not a YAML map")
    document = read_yaml(text.encode(errors="replace"), "")
    if not isinstance(document.root, MappingNode) or document.diagnostics:
        raise ValueError("not a YAML map")
    return [
        (key, value.text if isinstance(value, ScalarNode) else NOT_TEXT)
        for key, (_, value) in document.root.entries.items()
    ]
