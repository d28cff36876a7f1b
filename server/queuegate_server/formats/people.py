"""Reads lists of users from CSV files, which may list users' groups, or from audit logs.

A CSV line contains a user followed by the user's groups, such as `sue,analysts,leads`. A resolver
supplies the groups if the file is an audit log, or if no line has a second field.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping

from queuegate.policy.names import CONTROL_CHARACTER
from queuegate_server.formats.diagnostics import Diagnostics, ParseError, Position, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import decode

People = Mapping[str, tuple[str, ...] | None]
"""Each user's groups; None if the file does not list them."""


def read_people(data: bytes, diagnostics: Diagnostics) -> People:
    """Parse a list of people, and add errors for invalid lines."""
    people: dict[str, tuple[str, ...] | None] = {}
    with diagnostics:
        text = decode(data)
        rows = _audit_log(text) if text.lstrip().startswith("{") else _table(text)
        for line, user, groups in rows:
            if fault := _fault([user, *(groups or ())]):
                diagnostics.add(Position(line, 1), fault)
            elif groups or user not in people:
                people[user] = groups
    return people


def _fault(names: list[str]) -> Finding | None:
    for name in names:
        if not name:
            return finding("empty-name")
        if CONTROL_CHARACTER.search(name):
            return finding("control-character", name=quoted(name))
    return None


def _table(text: str) -> Iterator[tuple[int, str, tuple[str, ...] | None]]:
    """Yield the line number, user and groups of each row. Raises ParseError for invalid CSV."""
    rows = csv.reader(io.StringIO(text), strict=True, skipinitialspace=True)
    read = []
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                read.append((rows.line_num, cells))
    except csv.Error as error:
        found = finding("invalid-csv", why=error)
        raise ParseError(Position(rows.line_num, 1), found) from None
    has_groups = any(len(cells) > 1 for _, cells in read)
    for line, (user, *groups) in read:
        # `sue,` is a user without groups.
        yield line, user, tuple(groups if any(groups) else ()) if has_groups else None


def _audit_log(text: str) -> Iterator[tuple[int, str, None]]:
    """Yield the line number and user of each record that names a user. Raises ParseError."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ParseError(Position(number, 1), finding("not-an-audit-record"))
        user = record.get("user")
        if isinstance(user, str) and user:
            yield number, user, None
