"""Output as JSON, YAML and tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

from queuegate.cli.terminal import escape


def plain(document: Any) -> dict[str, Any]:
    """Convert a dataclass or a mapping to a dictionary."""
    if is_dataclass(document) and not isinstance(document, type):
        return asdict(document)
    return dict(document)


def explanation_document(explanation: Any) -> dict[str, Any]:
    """Convert an explanation to a dictionary. The decision's fields are at the top level, as in the
    output for a decision.
    """
    document = plain(explanation)
    return {**document.pop("decision"), **document}


def to_json(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON, in ASCII so that it is safe to print on a terminal."""
    return json.dumps(document, indent=2, default=_text).replace("\x7f", "\\u007f")


def to_yaml(document: Mapping[str, Any]) -> str:
    """Return a document as YAML. All strings are quoted, so that parsers do not mistake them for
    other types.
    """
    return "\n".join(_yaml(document, ""))


def _yaml(value: Any, indent: str) -> Iterator[str]:
    """Yield the YAML lines for a non-empty mapping or sequence."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _item(f"{indent}{key}:", item, f"{indent}  ")
    else:
        for item in value:
            first, *others = _item("", item, f"{indent}  ")
            yield f"{indent}- {first.strip()}"
            yield from others


def _item(key: str, value: Any, indent: str) -> list[str]:
    """Return the YAML lines for a value, the first of which begins with its key."""
    if isinstance(value, Mapping | list | tuple) and value:
        return [*([key] if key else []), *_yaml(value, indent)]
    # JSON scalars and empty collections are valid YAML, and so are the escapes added by `escape`.
    text = escape(json.dumps(value, ensure_ascii=False, default=_text))
    return [f"{key} {text}"]


def to_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns."""
    cells = [tuple(heads), *(tuple(map(escape, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
