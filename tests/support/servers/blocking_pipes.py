"""A server whose reads hang on a pipe, as they may on a network file system."""

import sys
from typing import Final

_PROGRAM: Final = """
from pathlib import Path
from queuegate_server.files import safe_open
safe_open.read_regular = lambda path, _max_bytes: path.read_bytes()
from queuegate_server.cli.main import main
main()
"""


def blocking_server_command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", _PROGRAM, *arguments]
