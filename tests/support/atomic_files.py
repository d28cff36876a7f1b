"""Files that other programs read while they are replaced."""

from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a file as careful programs do: aside, then renamed.

    One that is written in place may be read while it is half written.
    """
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, errors="surrogateescape")
    new.replace(path)
