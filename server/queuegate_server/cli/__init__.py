"""The command-line program `queuegate-server`."""

from typing import Final

EXIT_NO: Final = 1
"""Exit status: invalid, different, refuted, failed, or not fully converted."""
EXIT_FAILURE: Final = 2
"""Exit status: incorrect usage or configuration, or a file that cannot be read or written."""
