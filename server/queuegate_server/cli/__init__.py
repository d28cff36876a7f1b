"""The command line `queuegate-server`, with one module per command."""

from typing import Final

EXIT_NO: Final = 1
"""Exit status: invalid, different, not fully converted, or not intact."""
EXIT_FAILURE: Final = 2
"""Exit status: incorrect usage or configuration, or a file that cannot be read or written."""
