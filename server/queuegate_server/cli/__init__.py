"""The command-line program `queuegate-server`."""

from typing import Final

EXIT_NO: Final = 1
"""Exit status for a negative result: diagnostics, differences, refuted claims, failed tests, or an
incomplete conversion."""
EXIT_INCOMPLETE: Final = 3
"""Exit status if nothing negative was found, but the list of users is incomplete."""
EXIT_FAILURE: Final = 2
"""Exit status for incorrect usage or configuration, or a file that cannot be read or written."""
SERVING_STATUSES: Final = {
    0: "stopped by a signal",
    EXIT_FAILURE: "incorrect usage or configuration",
}
"""The exit statuses of commands that serve, with their meaning."""
