"""The arguments of h2load, and its results."""

import re
import shutil
from typing import Final

from bench.command import CannotMeasure
from bench.load import connections_for

_DONE: Final = re.compile(
    r"finished in .*?, ([0-9.]+) req/s.*"
    r"requests: .* (\d+) done, (\d+) succeeded.*traffic: .*\((\d+)\) data",
    re.DOTALL,
)


def find() -> None:
    """Raise CannotMeasure unless h2load is installed."""
    if shutil.which("h2load") is None:
        raise CannotMeasure("h2load is not installed (Debian: apt-get install nghttp2-client).")


def connections(at_once: int) -> list[str]:
    """Return h2load's options for a number of concurrent calls.

    h2load ignores a server's limit on concurrent streams, and the server refuses calls beyond it.
    """
    clients = connections_for(at_once)
    return [f"--clients={clients}", f"--max-concurrent-streams={at_once // clients}"]


def done(told: str) -> tuple[int, float]:
    """Return the number of calls, and the number per second, from the output of h2load.

    Raises CannotMeasure if any of them failed.
    """
    match = _DONE.search(told)
    if match is None:
        raise CannotMeasure(f"h2load failed: {told[-500:]}")
    per_second, calls, succeeded, answered_bytes = map(float, match.groups())
    # A call that ends with an error has no data, but still HTTP status 200.
    if not calls or calls != succeeded or answered_bytes / calls < len(b"\0size"):
        raise CannotMeasure(f"calls failed under h2load: {told[-500:]}")
    return int(calls), per_second
