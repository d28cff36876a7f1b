"""Writes Kubernetes objects as YAML with comments. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

COMMENT: Final = "#"
"""The key of an object's comment, which is written above the object."""
_MAX_COLUMNS: Final = 100
_PLAIN: Final = re.compile(r"[A-Za-z/][-A-Za-z0-9_./]*")
_NOT_PLAIN: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML 1.1 or 1.2 reads as a type other than text, in lower case."""


def render(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return documents as YAML.

    Args:
        documents: Objects that contain only strings, integers, lists and objects.
    """
    return "---\n".join("".join(f"{line}\n" for line in _document(each)) for each in documents)


def without_comments(value: Any) -> Any:
    """Return a copy of a value without the members that are comments."""
    if isinstance(value, Mapping):
        return {key: without_comments(each) for key, each in value.items() if key != COMMENT}
    if isinstance(value, list):
        return [without_comments(each) for each in value]
    return value


def _document(value: Mapping[str, Any]) -> Iterator[str]:
    yield from _comment(value, "")
    yield from _mapping(value, "")


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, each in value.items():
        if key == COMMENT:
            continue
        if isinstance(each, str) and _is_block(each):
            yield f"{indent}{_scalar(key)}: |-"
            yield from (f"{indent}  {line}" for line in each.split("\n"))
        elif isinstance(each, Mapping):
            yield f"{indent}{_scalar(key)}:"
            yield from _mapping(each, f"{indent}  ")
        elif isinstance(each, list):
            yield from _list(key, each, indent)
        else:
            yield f"{indent}{_scalar(key)}: {_scalar(each)}"


def _is_block(text: str) -> bool:
    """Return whether text is best written as a block, which cannot begin or end with a space."""
    return ("\n" in text or '"' in text) and text == text.strip()


def _list(key: str, items: Sequence[Any], indent: str) -> Iterator[str]:
    if not any(isinstance(each, Mapping) for each in items):
        line = f"{indent}{_scalar(key)}: [{', '.join(map(_scalar, items))}]"
        if len(line) <= _MAX_COLUMNS:
            yield line
            return
    yield f"{indent}{_scalar(key)}:"
    inner = f"{indent}  "
    for each in items:
        if not isinstance(each, Mapping):
            yield f"{inner}- {_scalar(each)}"
            continue
        yield from _comment(each, inner)
        lines = list(_mapping(each, f"{inner}  "))
        yield f"{inner}- {lines[0].strip()}"
        yield from lines[1:]


def _comment(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    if text := value.get(COMMENT):
        yield from (f"{indent}# {line}" for line in text.split("\n"))


def _scalar(value: str | int) -> str:
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or value.lower() in _NOT_PLAIN):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
