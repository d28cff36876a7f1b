"""The interface of the load generators: the amount to ask for, and the figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Amount:
    """How much to ask for: calls until some time has passed, or a number of calls."""

    concurrency: int
    seconds: float | None = None
    calls: int | None = None
    connections: int = 1
    """How many connections the calls are spread over."""


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of a load generator. Latencies in milliseconds."""

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
        """Call a method of the AccessService with the messages of a file in turn.

        Raises CannotMeasure unless every call succeeds.
        """
