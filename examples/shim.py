"""A scheduler shim in Python: only applications that may use their queue get through.

It reads one application per line, user and queue, and prints its verdict:

    echo "sue root.sandbox" | python examples/shim.py
"""

import math
import sys

import queuegate


def verdict(client: queuegate.Client, user: str, queue: str) -> str:
    """Return the verdict on an application. Only a clear yes lets it through."""
    try:
        decision = client.check(user, queue)
    except queuegate.Unavailable as error:
        # Not a denial: keep the application, and ask again after this time at the earliest.
        return f"wait {math.ceil(error.retry_after or 1)} s: {error}"
    except queuegate.NotPermitted as error:
        # The shim lacks a credential or a role. Rejecting every application would be wrong.
        return f"wait: {error}"
    except queuegate.QueuegateError as error:
        return f"reject: {error}"
    if not decision:
        return f"reject: {user} may not submit to {queue} ({decision.reason})"
    return f"admit: by {decision.reason}, policy revision {decision.policy_revision}"


with queuegate.Client() as connected:  # at QUEUEGATE_ADDRESS, or on loopback
    for line in sys.stdin:
        name, _, path = line.strip().partition(" ")
        print(verdict(connected, name, path), flush=True)
