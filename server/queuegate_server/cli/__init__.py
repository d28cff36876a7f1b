"""The command line `queuegate-server`, one module for each command."""

from typing import Final

EXIT_NO: Final = 1
"""Exit status: invalid, different, not converted completely, or not intact."""
EXIT_FAILURE: Final = 2
"""Exit status: wrong usage or configuration, or a file that cannot be read or written."""
