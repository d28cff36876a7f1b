"""Replaces files that other programs read."""

from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a file atomically: a temporary file, then a rename.

    A file written in place may be read when only half of it is written.
    """
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, errors="surrogateescape")
    new.replace(path)
