"""Answers as JSON for programs: the keys are the names of the attributes of the API."""

import json
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any


def to_json(document: Any) -> str:
    """Return a document on several lines, in ASCII, so that no terminal acts on it."""
    plain = (
        asdict(document) if is_dataclass(document) and not isinstance(document, type) else document
    )
    return json.dumps(plain, indent=2, default=_text).replace("\x7f", "\\u007f")


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
