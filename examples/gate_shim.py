"""A scheduler shim that decides in its own process, and keeps deciding while the server restarts.

It reads one application per line, user and queue, and prints its verdict and who decided:

    echo "sue root.sandbox" | python examples/gate_shim.py
"""

import math
import sys

import queuegate


def verdict(gate: queuegate.Gate, user: str, queue: str) -> str:
    """Return the verdict on an application. Only a clear yes lets it through."""
    before = gate.decided
    try:
        decision = gate.check(user, queue)
    except queuegate.Unavailable as error:
        return f"wait {math.ceil(error.retry_after or 1)} s: {error}"
    except queuegate.NotPermitted as error:
        # The shim lacks a credential or a role. Rejecting every application would be wrong.
        return f"wait: {error}"
    except queuegate.QueuegateError as error:
        return f"reject: {error}"
    who = "the gate" if gate.decided > before else "the server"
    return f"{'admit' if decision else 'reject'}: {decision.reason}, decided by {who}"


# A restart takes a few seconds; a lease lasts five.
with queuegate.Gate(stale=60) as connected:  # at QUEUEGATE_ADDRESS, or on loopback
    for line in sys.stdin:
        name, _, path = line.strip().partition(" ")
        print(verdict(connected, name, path), flush=True)
