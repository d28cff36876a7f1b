"""The interface of the load generators: the amount to ask for, and the figures."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

STREAMS: Final = 16
"""The server's default limit on concurrent calls per connection."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The number of calls: for a period of time, or a fixed number."""

    concurrency: int
    seconds: float | None = None
    calls: int | None = None
    connections: int | None = None
    """The number of connections over which the calls are spread; None for as few as STREAMS
    allows. Only ghz uses more than one."""


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of a load generator, with latencies in milliseconds."""

    calls: int
    seconds: float
    p50: float
    p95: float
    p99: float

    @property
    def per_second(self) -> float:
        """Calls per second."""
        return self.calls / self.seconds


class Generator(Protocol):
    """A program that calls a server."""

    def run(self, address: str, method: str, data: Path, amount: Amount) -> Load:
        """Call a method of the AccessService with the messages in a file in turn.

        Raises CannotMeasure unless every call succeeds.
        """


def connections_for(at_once: int) -> int:
    """Return the number of connections that share a number of concurrent calls evenly, each with at
    most STREAMS.
    """
    return next(
        number
        for number in range(math.ceil(at_once / STREAMS), at_once + 1)
        if at_once % number == 0
    )
