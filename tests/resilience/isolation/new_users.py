"""Questions about users whom the server does not know yet."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import queuegate

CALLERS = 16
SECONDS = 2.0
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: open, submitacl: "*"}
          - {name: team, submitacl: " analytics"}
"""


_NUMBERS = itertools.count()


def ask_about_new_users(address: str) -> None:
    """Let several callers ask about a new user each time, and ignore the answers."""
    end = time.monotonic() + SECONDS

    def ask() -> None:
        retry = queuegate.Retry(attempts=1)
        with queuegate.Client(address, timeout=SECONDS, retry=retry) as client:
            while time.monotonic() < end:
                with suppress(queuegate.QueuegateError):
                    client.check(f"u{next(_NUMBERS)}", "root.team")

    with ThreadPoolExecutor(CALLERS) as pool:
        for asking in [pool.submit(ask) for _ in range(CALLERS)]:
            asking.result()
