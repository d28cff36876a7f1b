"""Samples in documents, and how tests run them."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SECONDS: Final = 120
ELLIPSIS: Final = "..."
"""A line of a sample that stands for any number of lines."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A command of a document, and the output that the document shows."""

    command: str
    shown: str | None = None
    """None if the document shows no output."""

    def run(
        self, folder: Path, programs: str, replaced: Mapping[str, str], seconds: float = _SECONDS
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command in the shell.

        Args:
            folder: The working directory.
            programs: The folders of its programs, as in PATH, which precede the machine's.
            replaced: Placeholders in the command, with the values that only a test knows.
            seconds: The time limit.

        """
        command = self.command
        for written, meant in replaced.items():
            command = command.replace(written, meant)
        return subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def shows(self, output: str) -> bool:
        """Return whether the output matches the one in the document.

        A line `...` stands for any number of lines, and `...` within a line for any text.
        """
        assert self.shown is not None
        parts = re.split(rf"^{re.escape(ELLIPSIS)}$\n?", self.shown, flags=re.MULTILINE)
        pattern = ".*".join(
            "[^\n]*".join(re.escape(piece) for piece in part.split(ELLIPSIS)) for part in parts
        )
        return re.fullmatch(pattern, output, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document, without the indentation of a list around it."""

    language: str
    text: str
    line: int
    file: str = ""
    """The file that it shows: `title="…"` after the language."""
    not_run: str = ""
    """Why no test runs it: the comment `<!-- not run: … -->` above the block."""


_FENCED: Final = re.compile(
    r"(?:^ *<!-- not run: (?P<not_run>[^\n]+) -->\n+)?"
    r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^`\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_TITLE: Final = re.compile(r'\btitle="([^"]+)"')


def fenced_blocks(text: str) -> list[Block]:
    """Return all fenced blocks of a document."""
    blocks = []
    for match in _FENCED.finditer(text):
        title = _TITLE.search(match["info"])
        blocks.append(
            Block(
                language=match["info"].partition(" ")[0],
                text=re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
                line=text.count("\n", 0, match.start("fence")) + 1,
                file=title[1] if title else "",
                not_run=match["not_run"] or "",
            )
        )
    return blocks


def blocks(text: str, language: str) -> list[str]:
    """Return the texts of the blocks in a language."""
    return [block.text for block in fenced_blocks(text) if block.language == language]


def samples(text: str) -> Iterator[Sample]:
    """Return the commands of a document: the lines of its `sh` blocks, and the lines after a prompt
    in its `console` blocks, with the output shown below them.
    """
    for block in fenced_blocks(text):
        if block.language == "sh":
            for line in re.split(r"(?<!\\)\n", block.text.rstrip("\n")):
                yield Sample(line)
        elif block.language == "console":
            yield from dialogue(block.text)


def dialogue(text: str) -> Iterator[Sample]:
    """Return the commands of a `console` block: from `$ ` to a line that does not end with a
    backslash, or to the end of a here-document.
    """
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:[^\n]*\\\n)*[^\n]*", part)
        assert command
        end = command.end()
        if here := re.search(r"<<-?'?(\w+)'?", command[0]):
            end = part.index(f"\n{here[1]}\n", end) + len(here[1]) + 1
        yield Sample(part[:end], part[end + 1 :])
