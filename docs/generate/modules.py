"""modules.md: what each Python module of the client and the server does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generate.markdown import code, page, table

ROOTS: Final = (Path("client/queuegate"), Path("server/queuegate_server"))
_INTRODUCTION: Final = """\
This page is for people who change the code. It shows the first sentence of each module's
docstring. [The architecture](../../ARCHITECTURE.md) explains how the parts work together and which
modules a change affects.
"""
_SENTENCE_ENDS: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`])|\n\n")


def generate() -> str:
    """Return the page."""
    return page("Modules", _INTRODUCTION, *(part for root in ROOTS for part in _packages(root)))


def _packages(root: Path) -> Iterator[str]:
    for folder in sorted({file.parent for file in modules(root)}):
        own = sorted(file for file in modules(folder) if file.parent == folder)
        rows = [
            (code(file.stem), summary(file))
            for file in own
            if file.stem != "__init__" or len(own) == 1
        ]
        yield f"## `{folder.relative_to(root.parent)}`"
        if own[0].stem == "__init__" and summary(own[0]):
            yield summary(own[0])
        yield table(("module", "what it does"), rows)


def modules(root: Path) -> Iterator[Path]:
    """Yield the files of handwritten modules."""
    for file in root.rglob("*.py"):
        if not file.stem.endswith(("_pb2", "_pb2_grpc")) and file.parent.name != "v1":
            yield file


def summary(file: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first = " ".join(_SENTENCE_ENDS.split(text)[0].split())
    return first.removesuffix(":") + "." * first.endswith(":")
