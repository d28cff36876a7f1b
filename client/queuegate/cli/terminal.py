"""Escape and color text for terminals."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO


def escape(text: str) -> str:
    r"""Escape characters that a terminal would interpret, or that change how other text is
    displayed. Escapes look like `\x1b` or `\u202e`.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def join_names(names: Iterable[str]) -> str:
    """Join escaped names with commas. Names that would be ambiguous in the list are quoted."""
    return ", ".join(escape(f'"{name}"' if _needs_quotes(name) else name) for name in names)


def unlistable(names: Iterable[str]) -> str:
    """Return a note on names that no ACL can list; "" if there are none."""
    affected = join_names(name for name in names if _needs_quotes(name))
    return f"no ACL can list {affected}: commas and spaces separate names" if affected else ""


def _needs_quotes(name: str) -> bool:
    return not name or "," in name or name != name.strip()


@dataclass(frozen=True, slots=True)
class Colors:
    """ANSI colors for text. If `on` is false, text remains unchanged."""

    on: bool

    def good(self, text: str) -> str:
        """Return the text in green."""
        return self._with("32", text)

    def bad(self, text: str) -> str:
        """Return the text in red."""
        return self._with("31", text)

    def doubtful(self, text: str) -> str:
        """Return the text in yellow."""
        return self._with("33", text)

    def faint(self, text: str) -> str:
        """Return the text dimmed."""
        return self._with("2", text)

    def _with(self, attribute: str, text: str) -> str:
        return f"\x1b[{attribute}m{text}\x1b[0m" if self.on else text


def colors_for(stream: TextIO) -> Colors:
    """Return colors, enabled only if `stream` is a terminal with colors and `NO_COLOR` is not
    set.
    """
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Colors(wanted and stream.isatty())
