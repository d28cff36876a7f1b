"""Pictures of the commands on a terminal, in docs/pictures: each of a real run.

`python -m tests.e2e.documentation.terminal_pictures` makes them.
"""

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from tests.support.servers.queuegate_server import running_server

PICTURES: Final = Path("docs/pictures")
_COLUMNS: Final = 96
_COULD_NOT_ASK: Final = 3
_POLICY: Final = "examples/queues.yaml"
_TREE: Final = ("queuegate tree", "queuegate tree --user sue")
_LINT: Final = ("cat queues.yaml", "queuegate-server lint queues.yaml")
_MISTAKEN: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: analytics
            submitacl:  analysts
          - name: sandbox
            submitacl: "*"
            queues:
              - name: sue
                submitacl: sue
          - name: training
            submitacl: "sue, bob"
"""
_SVG: Final = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, monospace; }}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As Rich's own, without fonts from the network."""


def draw() -> Iterator[tuple[str, str]]:
    """Return the pictures by name."""
    with running_server("--policy", _POLICY) as server:
        asking = {"QUEUEGATE_ADDRESS": server.address}
        yield "tree", picture("tree", _TREE, Path(), asking)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "queues.yaml").write_text(_MISTAKEN)
        yield "lint", picture("lint", _LINT, Path(folder), {})


def picture(
    name: str,
    commands: tuple[str, ...],
    folder: Path,
    variables: Mapping[str, str],
    columns: int = _COLUMNS,
) -> str:
    """Run commands in a folder, and return a picture of the terminal.

    Args:
        name: The picture's name, which its identifiers contain.
        commands: The commands; their arguments are separated by blanks.
        folder: Where they run.
        variables: Further environment variables.
        columns: The width of the terminal, in characters.
    """
    variables = {**variables, "COLUMNS": str(columns)}
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    for number, command in enumerate(commands):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        status, written = _run(command, folder, variables)
        while status == _COULD_NOT_ASK:  # a busy machine exceeds the client's time limit
            status, written = _run(command, folder, variables)
        console.print(Text.from_ansi(written))
    drawn = console.export_svg(
        title="queuegate",
        theme=SVG_EXPORT_THEME,
        code_format=_SVG,
        unique_id=name,
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"


def _run(command: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit status of a command, and what it writes on a terminal."""
    ours, its = pty.openpty()
    path = variables.get("PATH", os.environ["PATH"])
    programs = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "NO_COLOR" and not name.startswith("QUEUEGATE_")
    }
    environment |= {**variables, "PATH": programs, "TERM": "xterm"}
    arguments = command.split()
    program = shutil.which(arguments[0], path=programs)
    assert program, command
    try:
        process = subprocess.Popen(
            [program, *arguments[1:]], cwd=folder, env=environment, stdout=its, stderr=its
        )
    finally:
        os.close(its)
    written = b""
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123 - a descriptor
        while True:
            try:
                part = terminal.read(65_536)
            except OSError:  # the last writer has closed the terminal
                break
            if not part:
                break
            written += part
    return process.wait(60), written.decode().replace("\r\n", "\n").rstrip("\n")


def main() -> None:
    """Write the pictures."""
    for name, picture in draw():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
