"""The program of a server whose event loop can be made to stand still: SIGUSR1 does it for good.

Its watchdog waits for three seconds instead of a minute.
"""

import signal
import time

from queuegate_server.cli.main import main
from queuegate_server.runtime.event_loop import LoopWatchdog

STALL_SECONDS = 3.0
HANG_SECONDS = 600.0


def stand_still(*_: object) -> None:
    """Block the thread of the event loop, in which Python runs signal handlers."""
    time.sleep(HANG_SECONDS)


if __name__ == "__main__":
    LoopWatchdog.__init__.__defaults__ = (STALL_SECONDS, HANG_SECONDS)
    signal.signal(signal.SIGUSR1, stand_still)
    main()
