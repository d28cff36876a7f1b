"""The interface of the load generators: the amount to ask for, and the figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Amount:
    """The number of calls: for a period of time, or a fixed number."""

    concurrency: int
    seconds: float | None = None
    calls: int | None = None
    connections: int = 1
    """The number of connections over which the calls are spread."""


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
