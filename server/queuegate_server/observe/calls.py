"""Counts of gRPC calls, by method."""

from typing import Final

from queuegate_server.observe.timings import Timings

SECONDS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
"""Bounds of the buckets: a check takes a tenth of a millisecond, a look-up up to seconds."""
_WATCHED: Final = ("OK", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNKNOWN")
"""Statuses that are there before their first call: Prometheus sees no increase in a value that
appears.
"""


class MethodCalls:
    """The calls of one method. Used from one event loop."""

    __slots__ = ("codes", "kind", "method", "service", "started", "timings")

    def __init__(self, kind: str, service: str, method: str) -> None:
        """Take `unary` or `bidi_stream`, and the names of service and method."""
        self.kind = kind
        self.service = service
        self.method = method
        self.started = 0
        self.codes = dict.fromkeys(_WATCHED, 0)
        """How many ended with each status, by its name."""
        self.timings = Timings(SECONDS)

    def start(self) -> None:
        """Count a call that begins."""
        self.started += 1

    def end(self, code: str, seconds: float) -> None:
        """Count a call that has ended with a status."""
        self.codes[code] = self.codes.get(code, 0) + 1
        self.timings.add(seconds)


class Calls:
    """The calls of all methods."""

    def __init__(self) -> None:
        """Start without methods."""
        self.methods: list[MethodCalls] = []

    def of_method(self, kind: str, service: str, method: str) -> MethodCalls:
        """Return where the calls of a method are counted. Once for each method."""
        calls = MethodCalls(kind, service, method)
        self.methods.append(calls)
        return calls
