"""Search filters as text, evaluated over entries in memory."""

import re
from collections.abc import Iterator

from tests.support.fakes.ldap_server import Answer, Attributes, Search

_ITEM = re.compile(r"\(([^=()]+)=([^()]*)\)")


class Entries:
    """Answers searches over entries as Active Directory does: long attributes come in ranges."""

    def __init__(self, entries: dict[str, Attributes], page: int = 1500) -> None:
        self.entries = entries
        self.page = page

    def __call__(self, search: Search) -> Answer:
        base = search.base.casefold()
        values = [
            (dn, entry)
            for dn, entry in self.entries.items()
            if dn.casefold() == base or (search.scope and dn.casefold().endswith(f",{base}"))
        ]
        return Answer(
            [
                (dn, dict(self._shown(entry, search.attributes)))
                for dn, entry in values
                if matches(search.filter, entry)
            ]
        )

    def _shown(
        self, entry: Attributes, attributes: tuple[str, ...]
    ) -> Iterator[tuple[str, list[bytes]]]:
        for attribute in attributes:
            name, _, part = attribute.partition(";range=")
            values = entry.get(name, [])
            if len(values) <= self.page and not part:
                yield name, values
                continue
            start = int(part.partition("-")[0] or 0)
            shown = values[start : start + self.page]
            end = "*" if start + len(shown) >= len(values) else str(start + len(shown) - 1)
            yield name, []
            yield f"{name};range={start}-{end}", shown


def matches(text: str, entry: Attributes) -> bool:
    """Return whether an entry matches a filter, ignoring case."""
    operator = text[1]
    if operator in "&|":
        results = [matches(part, entry) for part in _parts(text[2:-1])]
        return all(results) if operator == "&" else any(results)
    item = _ITEM.fullmatch(text)
    assert item, text
    held = {name.casefold(): values for name, values in entry.items()}
    values = [value.decode("latin-1").casefold() for value in held.get(item[1].casefold(), [])]
    return bool(values) if item[2] == "*" else item[2].casefold() in values


def _parts(text: str) -> Iterator[str]:
    depth = start = 0
    for position, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if not depth:
            yield text[start : position + 1]
            start = position + 1
