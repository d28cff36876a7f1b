"""Searches an audit log for the newest matching records, within limits."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from queuegate_server.files.safe_open import open_regular
from queuegate_server.observe.audit_file import MAX_LINE_BYTES

MAX_READ_BYTES: Final = 16 << 20
"""The maximum number of bytes searched."""
MAX_FILES: Final = 20
_PARSED_AT_ONCE: Final = 100
_PAUSE_SECONDS: Final = 0.0005
"""The pause after about a millisecond of work. It lets threads that handle checks get the GIL."""
_BLOCK_BYTES: Final = 1 << 18


class NewestRecords(NamedTuple):
    """The result of a search: the matching records, newest first."""

    records: list[Mapping[str, Any]]
    searched_all: bool
    """Whether the whole log was searched; False if a limit ended the search."""


def newest_records(
    path: Path,
    keep: int,
    matches: Callable[[Mapping[str, Any]], bool],
    number: int,
    markers: Sequence[bytes] = (b"",),
) -> NewestRecords:
    """Search an audit log and its rotated files backwards. Blocks. Raises OSError.

    Args:
        path: The current file.
        keep: The maximum number of rotated files. `path.1` is the newest.
        matches: A predicate that selects records.
        number: The maximum number of records to return.
        markers: Byte strings for fast filtering. Lines that contain none of them are not parsed.
    """
    records: list[Mapping[str, Any]] = []
    budget = MAX_READ_BYTES
    parsed = 0
    with ExitStack() as opened:
        # Open all files first. Otherwise, the search could miss a file rotated in the meantime.
        files = [opened.enter_context(open_regular(path))]
        for rotated in range(1, min(keep, MAX_FILES) + 1):
            try:
                older = open_regular(path.with_name(f"{path.name}.{rotated}"))
            except FileNotFoundError:
                break
            files.append(opened.enter_context(older))
        for file in files:
            for line in _lines_backwards(file.fileno()):
                budget -= len(line) + 1
                if budget < 0:
                    return NewestRecords(records, searched_all=False)
                record = None
                if any(map(line.__contains__, markers)):
                    record = _record(line)
                    parsed += 1
                    if not parsed % _PARSED_AT_ONCE:
                        time.sleep(_PAUSE_SECONDS)
                if record is None or not matches(record):
                    continue
                if len(records) == number:
                    return NewestRecords(records, searched_all=False)
                records.append(record)
    return NewestRecords(records, searched_all=True)


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _lines_backwards(descriptor: int) -> Iterator[bytes]:
    """Yield a file's lines from last to first, skipping oversized lines."""
    end = os.fstat(descriptor).st_size
    rest = b""
    while end:
        start = max(0, end - _BLOCK_BYTES)
        block = os.pread(descriptor, end - start, start) + rest
        end = start
        if len(block) > MAX_LINE_BYTES and b"\n" not in block:
            rest = b""
            continue
        rest, *lines = block.split(b"\n")
        yield from (line for line in reversed(lines) if line)
    if rest:
        yield rest
